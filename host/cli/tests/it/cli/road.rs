//! The whole road of a tool: an author makes, tests, signs and publishes it, and an operator elsewhere finds, gets, approves,
//! calls and serves it. Then each part is tampered with, and each is refused.
//!
//! It takes Debian's `docker-registry` and the toolchains of `author_languages`. What is missing prints `SKIPPED`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::add::{assert_ok, assert_refused};
use super::author::root;
use super::author_languages::{
    cargo_variables, install_packages, node, python_compiler, run_slowly, rust_compiler, skipped, toolchain,
};
use super::key::{PASSPHRASE, run_with_passphrase};
use super::published::{Registry, store_files};
use super::session::Session;
use super::workbench::Workbench;

/// The variables that name a toolchain.
type Variables = Vec<(&'static str, PathBuf)>;

/// A component that an author published. What operators see of the author is the registry and the files here.
struct Road {
    registry: Registry,
    /// The answer of `publish`.
    published: Value,
    /// The public key, in PEM.
    key: String,
    /// The table `[registry]` of those who trust the key.
    trust: String,
    /// The signed index.
    index: Vec<u8>,
}

impl Road {
    /// Plays the author's part, in a home of its own. `prepare` puts into the new project what is not fetched for a test.
    /// Returns `None` if there is no registry.
    fn of_author(new: &[&str], prepare: impl FnOnce(&Path), variables: &Variables) -> Option<Self> {
        let registry = Registry::start()?;
        let author = Workbench::new();
        assert_ok(author.run(&[&["new", "city-facts"], new].concat()));
        prepare(&author.path("city-facts"));
        assert_ok(run_slowly(&author, "city-facts", &["build"], variables));
        let tested = assert_ok(run_slowly(&author, "city-facts", &["test"], variables));
        assert!(tested.stdout.contains("4 passed, 0 failed"), "{tested:?}");

        assert_ok(run_with_passphrase(&author, PASSPHRASE, &["key", "new"]));
        let exported = assert_ok(author.run(&["key", "export"]));
        let (_, line) = exported.stderr.trim_end().split_once("[registry] ").unwrap();
        let trust = format!("[registry]\n{line}\n");

        let reference = format!("oci://{}/acme/city-facts:0.1.0", registry.host);
        let variables = [("FUMEHOOD_KEY_PASSPHRASE", PASSPHRASE.into())];
        let publish = ["publish", &reference, "--sign", "default", "--json"];
        let published = assert_ok(run_slowly(&author, "city-facts", &publish, &variables)).json();
        let pinned = published["reference"].as_str().unwrap();
        assert_ok(run_with_passphrase(&author, PASSPHRASE, &["index", "build", "--out", "tools.json", pinned]));
        let index = std::fs::read(author.path("tools.json")).unwrap();
        Some(Self { registry, published, key: exported.stdout, trust, index })
    }

    /// Returns another home and folder, with what the operator got from the author: the key and the index.
    fn operator(&self) -> Workbench {
        let bench = Workbench::new();
        bench.put("fumehood.toml", &self.trust);
        bench.put("author.pem", &self.key);
        bench.put("tools.json", &self.index);
        bench
    }

    /// Returns the reference with the digest of the manifest.
    fn pinned(&self) -> &str {
        self.published["reference"].as_str().unwrap()
    }

    /// Returns one of the digests that `publish` answered.
    fn digest(&self, part: &str) -> fumehood::Digest {
        self.published[part].as_str().unwrap().parse().unwrap()
    }

    /// Plays the operator's part. Returns the folder.
    fn play(&self) -> Workbench {
        let bench = self.operator();
        let found = assert_ok(bench.run(&[&SEARCH[..], &["--json"]].concat())).json();
        assert_eq!((found[0]["reference"].as_str(), &found[1]), (Some(self.pinned()), &Value::Null), "{found}");
        assert_eq!(found[0]["signers"][0], self.published["signer"]["id"], "{found}");

        let next = format!("fumehood add {} --key ", self.pinned());
        assert!(self.published["next"].as_str().unwrap().starts_with(&next), "{}", self.published);
        let added = assert_ok(bench.run(&["add", self.pinned(), "--yes"]));
        assert!(added.stdout.contains("verified by the key"), "{added:?}");
        assert_ok(bench.run(&["approve", "--check"]));
        assert_eq!(assert_ok(bench.run(&CALL)).stdout.trim(), "Hello, Ada.");

        let mut session = Session::start(&bench, &[]);
        assert_eq!(session.names(), ["city-facts__greet"]);
        let call = json!({"name": "city-facts__greet", "arguments": {"name": "Ada", "times": 2}});
        let answer = session.request(1, "tools/call", call);
        assert_eq!(answer["result"]["content"][0]["text"], "Hello, Ada. Hello, Ada.", "{answer}");
        assert_eq!(session.leave().2, Some(0));
        bench
    }
}

/// Looks for the tool in the index.
const SEARCH: [&str; 6] = ["search", "greet", "--index", "tools.json", "--index-key", "author.pem"];
/// Calls the tool.
const CALL: [&str; 4] = ["call", "city-facts", "greet", "name=Ada"];

/// Changes a file, checks that this is noticed, and puts the old one back.
fn tamper(file: &Path, change: impl FnOnce(&mut Vec<u8>), check: impl FnOnce()) {
    let good = std::fs::read(file).unwrap();
    let mut bad = good.clone();
    change(&mut bad);
    assert_ne!(good, bad, "{file:?}");
    std::fs::write(file, bad).unwrap();
    check();
    std::fs::write(file, good).unwrap();
}

/// Changes one bit near the end.
fn flip(bytes: &mut [u8]) {
    let at = bytes.len() - 3;
    bytes[at] ^= 1;
}

/// Replaces all of a text.
fn replace(old: &str, new: &str) -> impl FnOnce(&mut Vec<u8>) {
    move |bytes| *bytes = String::from_utf8(bytes.clone()).unwrap().replace(old, new).into_bytes()
}

/// Changes each part in the registry: nothing is added, and nothing of it is left.
fn tamper_at_the_registry(road: &Road) {
    let signature = std::fs::read(road.registry.blob(&road.digest("signature"))).unwrap();
    let signature: Value = serde_json::from_slice(&signature).unwrap();
    let bundle = signature["layers"][0]["digest"].as_str().unwrap().parse().unwrap();
    // The registry itself notices that a manifest was changed.
    for (digest, sentence) in [
        (road.digest("component"), "sent wrong bytes for the component"),
        (road.digest("manifest"), "with status 500"),
        (road.digest("signature"), "with status 500"),
        (bundle, "sent wrong bytes for the blob"),
    ] {
        let bench = road.operator();
        tamper(
            &road.registry.blob(&digest),
            |bytes| flip(bytes),
            || {
                assert_refused(&bench, &["add", road.pinned(), "--yes"], 6, &[sentence]);
            },
        );
        assert!(store_files(&bench).is_empty() && !bench.path("fumehood.lock").exists(), "{sentence}");
        assert_eq!(std::fs::read_to_string(bench.path("fumehood.toml")).unwrap(), road.trust);
    }
}

/// Changes each part that the operator has: nothing is called.
fn tamper_at_the_operator(road: &Road, bench: &Workbench) {
    let component = road.digest("component").hex();
    let manifest = road.digest("manifest").hex();
    let refused = |code: i32, sentence: &str| assert_refused(bench, &CALL, code, &[sentence]);
    // Records only say where to look; everything that counts is a blob.
    let (blobs, _records): (Vec<_>, Vec<_>) =
        store_files(bench).into_iter().partition(|file| file.parent().unwrap().ends_with("blobs"));
    assert_eq!(blobs.len(), 3, "component, manifest and signature: {blobs:?}");
    for file in blobs {
        let name = file.file_name().unwrap().to_str().unwrap();
        let sentence = if name == component { "was changed: expected the digest" } else { "its digest does not match" };
        tamper(&file, |bytes| flip(bytes), || refused(6, sentence));
    }

    let lock = bench.path("fumehood.lock");
    tamper(&lock, replace(&component, &manifest), || refused(2, "was edited by hand"));
    tamper(&lock, |bytes| bytes.truncate(bytes.len() / 2), || refused(2, "the lock"));

    let index = bench.path("tools.json");
    let text = std::fs::read_to_string(&index).unwrap();
    // The payload is base64: another letter in its middle is another list.
    let middle = text.find("payload\"").unwrap() + 200;
    let letter = if text.as_bytes()[middle] == b'A' { b'B' } else { b'A' };
    tamper(
        &index,
        |bytes| bytes[middle] = letter,
        || {
            assert_refused(bench, &SEARCH, 3, &["the index `tools` was changed"]);
        },
    );

    // With everything put back, all is well again.
    assert_ok(bench.run(&SEARCH));
    assert_ok(bench.run(&CALL));
}

#[test]
fn road_of_a_rust_tool_ends_where_it_is_tampered_with() {
    let Some(compiler) = rust_compiler() else { return skipped("Rust", "there is no compiler for WebAssembly") };
    let variables = [compiler, cargo_variables()].concat();
    // The versions of this repository, which are on this machine.
    let prepare = |project: &Path| {
        std::fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    };
    let Some(road) = Road::of_author(&["--sdk", root().to_str().unwrap()], prepare, &variables) else { return };
    let bench = road.play();
    tamper_at_the_registry(&road);
    tamper_at_the_operator(&road, &bench);
}

#[test]
fn road_of_a_python_tool() {
    let Some(variables) = python_compiler() else { return };
    let Some(road) = Road::of_author(&["--lang", "python"], |_| (), &variables.into()) else { return };
    road.play();
}

#[test]
fn road_of_a_javascript_tool() {
    if let Err(why) = toolchain("javascript") {
        return skipped("JavaScript", &why);
    }
    let prepare = |project: &Path| assert!(install_packages(project));
    let Some(road) = Road::of_author(&["--lang", "javascript"], prepare, &node()) else { return };
    road.play();
}
