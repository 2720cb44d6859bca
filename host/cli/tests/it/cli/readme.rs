//! Every block of the README is run as it stands.
//!
//! Commands run in an empty folder with the built program on the PATH. What they would get from the Internet is played by programs of
//! this machine: an MCP server, and a registry behind the address of a public one.

use std::path::{Path, PathBuf};

use fumehood_tests::docker_registry::{DockerRegistry, Settings};
use fumehood_tests::fake_server;
use fumehood_tests::markdown::blocks;

use super::add::assert_ok;
use super::author::root;
use super::author_languages::{cargo_variables, python_compiler, run_slowly, rust_compiler, skipped};
use super::key::PASSPHRASE;
use super::shell::Shell;
use super::workbench::Workbench;

/// This file.
const HERE: &str = "host/cli/tests/it/cli/readme.rs";
/// The blocks by section and language, and the file that runs each.
const RUN_BY: [(&str, &str, &str); 12] = [
    ("Install", "sh", "release/test-packages"),
    ("Install", "sh", HERE),
    ("Use your MCP servers safely", "toml", HERE),
    ("Use your MCP servers safely", "sh", HERE),
    ("Run a stranger's tool", "sh", HERE),
    ("Write a tool", "rust", HERE),
    ("Write a tool", "python", HERE),
    ("Write a tool", "sh", HERE),
    ("Embed it", "toml", HERE),
    ("Embed it", "rust", "host/fumehood/tests/it/fragments.rs"),
    ("Embed it", "python", "bindings/python/tests/test_documentation.py"),
    ("Embed it", "js", "bindings/node/tests/documentation.test.js"),
];

/// Returns the text of a block, the last one if there are several.
fn block(heading: &str, language: &str) -> String {
    let mut found = blocks("README.md").unwrap();
    found.retain(|block| block.heading == heading && block.language == language);
    found.pop().unwrap_or_else(|| panic!("there is no {language} under {heading}")).text
}

#[test]
fn every_block_is_run_by_a_test() {
    let found = blocks("README.md").unwrap();
    let found: Vec<_> = found.iter().map(|block| (block.heading.as_str(), block.language.as_str())).collect();
    let listed: Vec<_> = RUN_BY.iter().map(|(heading, language, _)| (*heading, *language)).collect();
    assert_eq!(found, listed, "write a test that runs the block, and list it here");
    for (.., file) in RUN_BY {
        assert!(std::fs::read_to_string(root().join(file)).unwrap().contains("README.md"), "{file}");
    }
}

/// The page about embedding shows a whole program with these.
#[test]
fn dependencies_are_those_of_the_embedding_page() {
    let mut of_page = blocks("docs/embedding.md").unwrap().into_iter();
    let of_page = of_page.find(|block| block.language == "toml").unwrap().text;
    assert!(of_page.starts_with(block("Embed it", "toml").trim_end()), "{of_page}");
}

/// The block in a checkout compiles everything in release mode as it stands, so its parts are checked.
#[test]
fn a_checkout_is_installed() {
    let block = block("Install", "sh");
    let lines: Vec<&str> = block.lines().map(|line| line.split('#').next().unwrap().trim()).collect();
    let [run, test, install] = lines[..] else { panic!("{block}") };
    let gate = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(gate.lines().any(|line| line == test), "the gate runs {test:?}");
    // Only one package of the workspace has a program that `cargo run` could mean.
    let arguments: Vec<&str> = run.strip_prefix("cargo run -- ").unwrap().split(' ').collect();
    assert_eq!(Workbench::new().run(&arguments).code, 0);
    let folder = root().join(install.strip_prefix("cargo install --path ").unwrap());
    let manifest: toml::Table = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
    assert_eq!(manifest["bin"][0]["name"].as_str(), Some("fumehood"));
}

#[test]
fn mcp_servers_are_used() {
    let bench = Workbench::new();
    let mut shell = Shell::new(&bench, &[]);
    shell.put_program("mcp-server-time", fake_server::SCRIPT);
    bench.put("fumehood.toml", block("Use your MCP servers safely", "toml"));
    let commands = block("Use your MCP servers safely", "sh");
    // Trust the file, start the server, approve its tools.
    shell.type_in(&commands, 3).assert_ok(&["approved `time`", "\"mcpServers\""]);
    let (_, clients) = commands.split_once("# or ").unwrap();
    for client in clients.trim().split(", ") {
        shell.type_in(&format!("fumehood mcp config {client}"), 0).assert_ok(&["fumehood"]);
    }
    shell
        .type_in("fumehood mcp list --no-jail fumehood serve mcp --servers --config fumehood.toml", 0)
        .assert_ok(&["time__t"]);
}

#[test]
fn tools_of_strangers_are_called() {
    let bench = Workbench::new();
    std::fs::create_dir(bench.path("docs")).unwrap();
    bench.example("calculator").example("files").put("docs/rules.txt", "Wash your hands.");
    let typed = Shell::new(&bench, &[]).type_in(&block("Run a stranger's tool", "sh"), 0);
    typed.assert_ok(&["there is nothing to grant", r#"{"result":8}"#, "rules.txt"]);
}

/// Returns the registry of the block, `ghcr.io`, behind a configuration that leads there.
fn public_registry(bench: &Workbench) -> Option<DockerRegistry> {
    let folder = bench.path("registry");
    std::fs::create_dir(&folder).unwrap();
    let registry = DockerRegistry::start(&folder, Settings::default()).unwrap()?;
    let host = registry.host();
    bench.put("registry.toml", format!("[registry]\nplain_http = [\"ghcr.io\"]\nproxy = \"http://{host}\"\n"));
    Some(registry)
}

fn sdk_dependency(name: &str, folder: &str) -> String {
    format!("{name} = {{ path = {:?} }}\n", root().join(folder))
}

#[test]
fn a_tool_in_rust_is_written_and_published() {
    let Some(compiler) = rust_compiler() else { return skipped("Rust", "there is no compiler for WebAssembly") };
    let bench = Workbench::new();
    let Some(_registry) = public_registry(&bench) else { return };
    // The SDK is not published yet.
    let patches = [
        ("fumehood-guest", "guest-sdk"),
        ("fumehood-guest-macros", "guest-sdk/macros"),
        ("fumehood-core", "host/core"),
    ];
    let patches: String = patches.iter().map(|(name, folder)| sdk_dependency(name, folder)).collect();
    std::fs::create_dir(bench.path(".cargo")).unwrap();
    bench.put(".cargo/config.toml", format!("[net]\noffline = true\n[patch.crates-io]\n{patches}"));
    let variables =
        [("FUMEHOOD_KEY_PASSPHRASE", PathBuf::from(PASSPHRASE)), ("FUMEHOOD_CONFIG", bench.path("registry.toml"))];
    let mut shell = Shell::new(&bench, &[compiler, cargo_variables(), variables.to_vec()].concat());
    let commands = block("Write a tool", "sh");
    let (new, rest) = commands.split_once('\n').unwrap();
    let (_, key) = commands.split_once("# once: ").unwrap();
    shell.type_in(&format!("{new}\n{key}"), 0).assert_ok(&["made the key `default`"]);
    // The versions of this repository, which are on this machine.
    std::fs::copy(root().join("Cargo.lock"), shell.path("my-tool/Cargo.lock")).unwrap();
    let digest = "ghcr.io/acme/my-tool:0.1.0@sha256:";
    shell.type_in(rest, 0).assert_ok(&["4 passed, 0 failed", digest]);

    std::fs::write(shell.path("src/lib.rs"), block("Write a tool", "rust")).unwrap();
    let call = "fumehood build && fumehood call dist/my-tool.wasm divide a=1 b=4\nfumehood call dist/my-tool.wasm divide a=1 b=0";
    let typed = shell.type_in(call, 0);
    assert!(typed.codes == [0, 1] && typed.output.contains("0.25\n"), "{typed:?}");
    assert!(typed.output.contains("division by zero"), "{typed:?}");
}

#[test]
fn a_tool_in_python_is_written() {
    let Some(variables) = python_compiler() else { return };
    let bench = Workbench::new();
    assert_ok(bench.run(&["new", "my-tool", "--lang", "python"]));
    let project = bench.path("my-tool");
    write(&project, "app.py", &block("Write a tool", "python"));
    assert_ok(run_slowly(&bench, "my-tool", &["build"], &variables));
    let call = ["call", "dist/my-tool.wasm", "divide", "a=1", "b=4"];
    assert_eq!(assert_ok(run_slowly(&bench, "my-tool", &call, &[])).stdout.trim(), "0.25");
}

fn write(project: &Path, name: &str, text: &str) {
    std::fs::write(project.join(name), text).unwrap();
}
