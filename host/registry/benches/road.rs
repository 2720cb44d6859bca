//! Time and memory of publishing, getting and verifying components, over a registry in the same process.
//!
//! `cargo bench -p fumehood-registry --bench road`

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    dead_code,
    reason = "a bench prints, and stops by panicking; the modules of the tests have more than it needs"
)]

#[path = "../tests/it/fixture.rs"]
mod fixture;
#[path = "../tests/it/server.rs"]
mod server;

use std::time::{Duration, Instant};

use fumehood_registry::client::RegistryClient;
use fumehood_registry::fetch::fetch_offline;
use fumehood_registry::signature::{Claim, sign, verify};
use fumehood_tests::docker_registry::{DockerRegistry, Settings};

use fixture::{KEY, NOW, TestStore, get, policy, publish, reference};
use server::TestRegistry;

const TURNS: usize = 20;
/// Size of a component that a compiler wrote, in bytes.
const SMALL_BYTES: usize = 500_000;
/// Size of a component with the interpreter of Python in it, in bytes.
const LARGE_BYTES: usize = 18 << 20;
/// Number of components that a start reads.
const LOCKED: usize = 100;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn print(what: &str, times: Vec<Duration>) {
    println!("{what:<60} {:>9.2} ms", median(times).as_secs_f64() * 1000.0);
}

/// Returns a line of `/proc/self/status`, in KiB.
fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let found = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    found.trim_matches([':', ' ', '\t', 'k', 'B']).parse().unwrap()
}

/// A registry to measure against.
enum MeasuredRegistry {
    /// One in this process, which keeps everything in memory.
    Own(TestRegistry),
    /// Debian's, a process of its own that writes to the disk.
    Debian(DockerRegistry),
}

impl MeasuredRegistry {
    fn host(&self) -> String {
        match self {
            Self::Own(registry) => registry.host(),
            Self::Debian(registry) => registry.host().to_owned(),
        }
    }

    /// Returns the time that the registry itself has spent so far, as far as it says.
    fn time_spent(&self) -> Duration {
        match self {
            Self::Own(_) => Duration::ZERO,
            Self::Debian(registry) => {
                // The last line of the log follows the answer.
                std::thread::sleep(Duration::from_millis(20));
                registry.time_spent().unwrap()
            }
        }
    }
}

async fn publish_and_get(client: &RegistryClient, registry: &MeasuredRegistry, name: &str) {
    let mut times: [Vec<Duration>; 4] = Default::default();
    for turn in 0..TURNS {
        let reference = reference(&registry.host(), &format!("acme/greeter-{turn}:1.0"));
        let component = fixture::component(SMALL_BYTES + turn);
        let before = registry.time_spent();
        let began = Instant::now();
        let publication =
            fumehood_registry::publish::Publication::new(reference.clone(), component, Default::default());
        let publication = publication.unwrap().sign(&KEY, fixture::provenance()).unwrap();
        publication.publish(client).await.unwrap();
        let published = began.elapsed();
        let store = TestStore::new();
        let between = registry.time_spent();
        let began = Instant::now();
        get(client, &store, &policy(), &reference).await.unwrap();
        let got = began.elapsed();
        let own = [between - before, registry.time_spent() - between];
        for (times, time) in times.iter_mut().zip([published, own[0], got, own[1]]) {
            times.push(time);
        }
    }
    let [published, own_of_publishing, got, own_of_getting] = times.map(median);
    let row = |what: &str, whole: Duration, own: Duration| {
        let whole = whole.as_secs_f64() * 1000.0;
        let own = own.as_secs_f64() * 1000.0;
        println!("{:<60} {whole:>9.2} ms, {own:.2} of it the registry's own", format!("{what}, {name}"));
    };
    row("publish 500 KB, signed", published, own_of_publishing);
    row("get 500 KB, verified and stored", got, own_of_getting);
}

fn verification() {
    let reference = reference("ghcr.io", "acme/greeter:1");
    let digest = fumehood_core::digest::Digest::of(b"");
    let bundle = sign(&KEY, &Claim::new(&reference, digest, digest, fixture::provenance())).unwrap().into_bytes();
    let keys = [KEY.public().clone()];
    let turn = |_| {
        let began = Instant::now();
        verify("ghcr.io/acme/greeter", &digest, &digest, std::slice::from_ref(&bundle), &keys).unwrap();
        began.elapsed()
    };
    print("verify a signature", (0..200).map(turn).collect());
}

/// Gets a large component in this process from the registry that another one runs, so that its memory is not counted.
async fn get_large(client: &RegistryClient, host: &str) {
    let store = TestStore::new();
    let before = memory("VmRSS");
    let began = Instant::now();
    get(
        client,
        &store,
        &policy().signatures(fumehood_registry::policy::SignatureRule::Off),
        &reference(host, "acme/large:1"),
    )
    .await
    .unwrap();
    let took = began.elapsed().as_secs_f64() * 1000.0;
    let peak = memory("VmHWM");
    println!("{:<60} {took:>9.2} ms", "get 18 MB");
    println!("{:<60} {:>9.1} MiB ({:.1} before)", "peak memory of that", peak as f64 / 1024.0, before as f64 / 1024.0);
}

async fn start(client: &RegistryClient) {
    let registry = TestRegistry::start().await;
    let store = TestStore::new();
    let mut locked = Vec::new();
    for number in 0..LOCKED {
        let reference = reference(&registry.host(), &format!("acme/tool-{number}:1"));
        publish(client, &reference, 60_000 + number, Some(&KEY)).await;
        locked.push(get(client, &store, &policy(), &reference).await.unwrap());
    }
    let mut of_store = Vec::new();
    let mut of_files = Vec::new();
    for _ in 0..TURNS {
        let began = Instant::now();
        for fetched in &locked {
            let fetched = fetch_offline(&store.store, &policy(), &fetched.reference, NOW).unwrap();
            fetched.read(&store.store).unwrap();
        }
        of_store.push(began.elapsed());
        let began = Instant::now();
        for fetched in &locked {
            // What loading a plain file does with its bytes.
            let digest = fumehood_core::digest::Digest::of(&std::fs::read(&fetched.path).unwrap());
            assert_eq!(digest, fetched.component);
        }
        of_files.push(began.elapsed());
    }
    print("read 100 components of the store, verified on one thread", of_store);
    print("read 100 files and compute their digests", of_files);
}

/// Runs the registry with the large component until the input ends.
async fn serve() {
    let registry = TestRegistry::start().await;
    publish(&fixture::client(), &reference(&registry.host(), "acme/large:1"), LARGE_BYTES, None).await;
    println!("{}", registry.host());
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if std::env::args().any(|argument| argument == "serve") {
        return runtime.block_on(serve());
    }
    let mut other = std::process::Command::new(std::env::current_exe().unwrap())
        .arg("serve")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut host = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(other.stdout.take().unwrap()), &mut host).unwrap();
    let client = fixture::client();
    runtime.block_on(async {
        get_large(&client, host.trim()).await;
        publish_and_get(&client, &MeasuredRegistry::Own(TestRegistry::start().await), "registry in memory").await;
        let folder = tempfile::tempdir().unwrap();
        if let Some(registry) = DockerRegistry::start(folder.path(), Settings::default()).unwrap() {
            publish_and_get(&client, &MeasuredRegistry::Debian(registry), "Debian's registry").await;
        }
        verification();
        start(&client).await;
    });
    drop(other.stdin.take());
    other.wait().unwrap();
}
