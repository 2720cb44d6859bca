//! Time of the commands on the road of a tool: publishing and adding one, over Debian's `docker-registry`, and starting with many
//! tools that the lock pins, from the store and from files.
//!
//! `cargo bench -p fumehood-cli --bench road`

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a bench prints, and stops by panicking"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fumehood_registry::publish::Publication;
use fumehood_registry::signature::{Algorithm, Provenance, SigningKey};
use fumehood_registry::store::{Store, StoreRecord};
use fumehood_tests::docker_registry::{DockerRegistry, Settings};
use serde_json::json;

const TURNS: usize = if cfg!(debug_assertions) { 3 } else { 20 };
/// Number of tools that the lock pins.
const LOCKED: usize = 100;
const PASSPHRASE: &str = "correct horse battery staple";

/// A home and a folder in it, where commands run.
struct Home {
    folder: PathBuf,
    cache: PathBuf,
}

impl Home {
    fn new(folder: PathBuf, cache: &Path) -> Self {
        std::fs::create_dir_all(&folder).expect("a folder");
        Self { folder, cache: cache.to_owned() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fumehood"));
        command.arg("--trust-config").args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        command.env("HOME", &self.folder).env("FUMEHOOD_CACHE_DIR", &self.cache).env_remove("FUMEHOOD_CONFIG");
        command.env("XDG_STATE_HOME", self.folder.join("state")).env("XDG_DATA_HOME", self.folder.join("data"));
        command.env("FUMEHOOD_KEY_PASSPHRASE", PASSPHRASE).env_remove("FUMEHOOD_LOG");
        command
    }

    /// Runs a command. Returns its time, and what it printed.
    fn run(&self, arguments: &[&str]) -> (Duration, String) {
        let began = Instant::now();
        let output = self.command(arguments).output().expect("it starts");
        let took = began.elapsed();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        (took, String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../example-tools/dist").join(name)
}

fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}

fn row(what: &str, times: Vec<Duration>) {
    println!("{what:<72} {:>8.1} ms", median_ms(times));
}

fn time_spent(registry: &DockerRegistry) -> Duration {
    // The last line of the log follows the answer.
    std::thread::sleep(Duration::from_millis(20));
    registry.time_spent().expect("a log")
}

/// Publishes and adds a component of 470 KB, each as a process of its own.
fn publish_and_add(folder: &Path) {
    std::fs::create_dir_all(folder.join("registry")).expect("a folder");
    let started = DockerRegistry::start(&folder.join("registry"), Settings::default()).expect("it starts");
    let Some(registry) = started else { return };
    let cache = folder.join("cache");
    let author = Home::new(folder.join("author"), &cache);
    author.run(&["key", "new"]);
    let (_, key) = author.run(&["key", "export"]);
    let component = example("github-issues.wasm");
    let component = component.to_str().expect("a path in UTF-8");
    let mut times: [Vec<Duration>; 6] = Default::default();
    for turn in 0..TURNS {
        let reference = format!("oci://{}/acme/tool-{turn}:1.0.0", registry.host());
        let (signed, _) = author.run(&["publish", &reference, component, "--sign", "default", "--dry-run"]);
        let before = time_spent(&registry);
        let (published, _) = author.run(&["publish", &reference, component, "--sign", "default"]);
        let between = time_spent(&registry);
        let operator = Home::new(folder.join(format!("operator-{turn}")), &cache);
        std::fs::write(operator.folder.join("acme.pem"), &key).expect("a file");
        let (added, _) = operator.run(&["add", &reference, "--key", "acme.pem", "--yes"]);
        let own = [between - before, time_spent(&registry) - between];
        // What `add` does with the bytes besides getting them: a file is loaded, shown and approved in the same way.
        let files = Home::new(folder.join(format!("files-{turn}")), &cache);
        let (from_file, _) = files.run(&["add", component, "--yes"]);
        for (times, time) in times.iter_mut().zip([signed, published, own[0], added, own[1], from_file]) {
            times.push(time);
        }
    }
    let [signed, published, own_of_publishing, added, own_of_adding, from_file] = times;
    println!("the first `add`, which compiles the component: {:.0} ms", added[0].as_secs_f64() * 1e3);
    row("publish --dry-run: opens the key and signs, sends nothing", signed);
    row("publish", published);
    row("  the registry's own time of that", own_of_publishing);
    row("add, compiled code cached", added);
    row("  the registry's own time of that", own_of_adding);
    row("add of the same component as a file", from_file);
}

/// Returns a component with the same code but another digest, because of a custom section with its number.
fn variant(component: &[u8], number: usize) -> Vec<u8> {
    let name = format!("{number:04}");
    let mut bytes = component.to_vec();
    bytes.extend([0, 5, 4]);
    bytes.extend(name.bytes());
    bytes
}

/// Puts a component into the store as if it had been pulled. Returns its reference with the digest.
fn put(store: &Store, component: Vec<u8>, number: usize, key: &SigningKey) -> String {
    let reference = format!("oci://registry.example/acme/tool-{number}:1.0.0").parse().expect("a reference");
    let publication = Publication::new(reference, component, BTreeMap::new()).expect("a component");
    let publication = publication.sign(key, Provenance::default()).expect("a signature");
    let artifact = publication.artifact();
    store.put(artifact.manifest()).expect("a blob");
    store.put(artifact.component()).expect("a blob");
    let signature = store.put(publication.bundle().expect("signed")).expect("a blob");
    let reference = format!("oci://registry.example/acme/tool-{number}:1.0.0@{}", artifact.digest());
    let record = StoreRecord {
        reference: reference.parse().expect("a reference"),
        manifest: artifact.digest(),
        component: artifact.component_digest(),
        component_bytes: artifact.component().len() as u64,
        signatures: vec![signature],
        verified: None,
        pulled_at: fumehood::time::Timestamp(0),
    };
    store.put_record(&record).expect("a record");
    reference
}

/// Returns the time from the start of a server to its list of tools.
fn start(home: &Home) -> Duration {
    let info = json!({"name": "raw", "version": "0"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
    ];
    let began = Instant::now();
    let mut command = home.command(&["serve", "mcp"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    messages.iter().for_each(|message| writeln!(input, "{message}").expect("it reads"));
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let list = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("\"id\":2")));
    let took = began.elapsed();
    assert!(list.expect("an answer").expect("a line").contains("tool-0__add"));
    drop(input);
    assert!(child.wait().expect("an end").success());
    took
}

fn start_with_many(folder: &Path) {
    let cache = folder.join("cache");
    let stored = Home::new(folder.join("stored"), &cache);
    let files = Home::new(folder.join("files"), &cache);
    let key = SigningKey::generate(Algorithm::P256).expect("a key");
    std::fs::create_dir_all(stored.folder.join("state/fumehood")).expect("a folder");
    let store = Store::open(stored.folder.join("state/fumehood/store")).expect("a store");
    let mut of_store = format!("[registry]\ntrusted_keys = [\"{}\"]\n", String::from(key.public().clone()));
    let mut of_files = String::new();
    let component = std::fs::read(example("calculator.wasm")).expect("the built component");
    for number in 0..LOCKED {
        let bytes = variant(&component, number);
        std::fs::write(files.folder.join(format!("{number}.wasm")), &bytes).expect("a file");
        let reference = put(&store, bytes, number, &key);
        writeln!(of_store, "[tools.tool-{number}]\nreference = \"{reference}\"").expect("text");
        writeln!(of_files, "[tools.tool-{number}]\ncomponent = \"{number}.wasm\"").expect("text");
    }
    let mut from_store = Vec::new();
    let mut from_files = Vec::new();
    for (home, text) in [(&stored, &of_store), (&files, &of_files)] {
        std::fs::write(home.folder.join("fumehood.toml"), text).expect("a file");
        home.run(&["--offline", "approve", "--yes"]);
        start(home);
    }
    for _ in 0..TURNS {
        from_store.push(start(&stored));
        from_files.push(start(&files));
    }
    let of_store = median_ms(from_store);
    let of_files = median_ms(from_files);
    println!("start of `serve mcp` with {LOCKED} locked tools, until its list of tools:");
    println!("  from the store {of_store:.1} ms, from files {of_files:.1} ms: {:.2} times", of_store / of_files);
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    publish_and_add(&folder.path().join("road"));
    start_with_many(&folder.path().join("start"));
}
