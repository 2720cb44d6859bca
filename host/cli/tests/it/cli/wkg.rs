//! Components beside `wkg`, the package tool of the Bytecode Alliance, over Debian's `docker-registry`.
//!
//! `FUMEHOOD_WKG` names its program, which `cargo install wkg --version 0.16.1 --locked --profile dev` makes. Without the variable
//! nothing is tested here, and a note on stderr says so; `interop` of `fumehood-registry` has the layout of what it pushes.

use std::path::Path;
use std::process::{Command, Output};

use fumehood_tests::contract::{Answer, ToolDescription};
use fumehood_tests::skip::skip;

use super::add::{assert_ok, assert_refused};
use super::published::{KEY, Registry, trusting_bench};
use super::workbench::Workbench;

const PROGRAM: &str = "FUMEHOOD_WKG";

/// Runs `wkg oci` in the folder, with the registry asked over plain HTTP. Returns `None` if there is no program.
fn wkg(bench: &Workbench, registry: &Registry, command: &str, arguments: &[&str]) -> Option<Output> {
    let Some(program) = std::env::var_os(PROGRAM) else {
        skip("wkg", &format!("set {PROGRAM} to the program `wkg` to run it"));
        return None;
    };
    let mut wkg = Command::new(program);
    wkg.args(["oci", command, "--insecure", &registry.host]).args(arguments);
    let output = wkg.current_dir(bench.path(".")).env("DOCKER_CONFIG", bench.path("docker")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output)
}

#[test]
fn wkg_pulls_what_we_publish() {
    let Some(registry) = Registry::start() else { return };
    let published = registry.publish("1.0", &[ToolDescription::new("read")], Some(&KEY));
    let bench = Workbench::new();
    let reference = registry.reference("1.0");
    let pull = [reference.trim_start_matches("oci://"), "--output", "pulled.wasm"];
    if wkg(&bench, &registry, "pull", &pull).is_none() {
        return;
    }
    let pulled = std::fs::read(bench.path("pulled.wasm")).unwrap();
    assert_eq!(fumehood::Digest::of(&pulled), published.component);
    assert_eq!(pulled, std::fs::read(registry.blob(&published.component)).unwrap());
}

#[test]
fn add_takes_what_wkg_pushed() {
    let Some(registry) = Registry::start() else { return };
    let bench = trusting_bench();
    bench.answering("theirs", &[ToolDescription::new("read")], Answer::Text(b"hello"));
    let reference = registry.reference("theirs");
    let push = [reference.trim_start_matches("oci://"), "theirs.wasm"];
    if wkg(&bench, &registry, "push", &push).is_none() {
        return;
    }
    assert_refused(&bench, &["add", &reference, "--yes"], 3, &["is not signed"]);
    bench.put("fumehood.toml", "[registry]\nsignatures = \"warn\"\n");
    assert_ok(bench.run(&["add", &reference, "--yes"]));
    assert_eq!(assert_ok(bench.run(&["call", "greeter", "read"])).stdout.trim(), "hello");
}

#[test]
fn wkg_reads_a_component_with_documentation() {
    let Some(registry) = Registry::start() else { return };
    let bench = trusting_bench();
    let greeter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../example-tools/dist/typed-greeter.wasm");
    std::fs::copy(greeter, bench.path("greeter.wasm")).unwrap();
    let reference = registry.reference("documented");
    wkg(&bench, &registry, "push", &[reference.trim_start_matches("oci://"), "greeter.wasm"]);
}
