//! Features: crates of the host resolve their dependencies to the same ones, so that none is compiled twice, and a feature
//! of `fumehood` that is off brings no dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The feature sets of each dependency, as `cargo tree` prints them. Dependencies of build scripts and macros may have
/// one of their own.
type Features = BTreeMap<String, BTreeSet<String>>;

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output().unwrap();
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn features(selection: &[&str], edges: &str) -> Features {
    let tree = ["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p}|{f}", "--edges", edges];
    let mut features = Features::new();
    for line in cargo(&[&tree, selection].concat()).lines() {
        let line = line.trim_end_matches(" (*)");
        if let Some((package, set)) = line.rsplit_once('|') {
            let package = package.trim_end_matches(" (proc-macro)");
            features.entry(package.to_owned()).or_default().insert(set.to_owned());
        }
    }
    features
}

/// Returns the crates of the host, each with the edges along which it shares features. Published crates do so in tests,
/// benches and examples alone, since nobody else has the crate that unifies features. Guest crates are also built for
/// WebAssembly, with fewer features.
fn host_crates() -> Vec<(String, Vec<&'static str>)> {
    let metadata: serde_json::Value =
        serde_json::from_str(&cargo(&["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"]))
            .unwrap();
    let root = metadata["workspace_root"].as_str().unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let is_of_the_host = |package: &&serde_json::Value| {
        let manifest = package["manifest_path"].as_str().unwrap().strip_prefix(root).unwrap();
        ["/host/", "/bindings/", "/tests/", "/example-tools/builder/"].iter().any(|folder| manifest.starts_with(folder))
    };
    let name = |package: &serde_json::Value| package["name"].as_str().unwrap().to_owned();
    packages.filter(is_of_the_host).map(|package| (name(package), dependency_kinds(package))).collect()
}

fn dependency_kinds(package: &serde_json::Value) -> Vec<&'static str> {
    match &package["publish"] {
        serde_json::Value::Null => vec!["normal,build,dev"],
        _ => vec!["normal,build", "normal,build,dev"],
    }
}

#[test]
fn host_crates_share_compiled_dependencies() {
    let workspace = features(&["--workspace"], "normal,build,dev");
    // Dependencies of the tests alone are small, and left out.
    let command = features(&["--package", "fumehood-cli"], "normal,build");
    assert!(command.len() > 100, "{command:?}");
    let mut wrong = BTreeSet::new();
    let mut compare = |name: &str, selection: &[&str], edges| {
        let of_others = features(selection, edges).into_iter().filter(|(package, _)| !package.contains("(/"));
        for (package, sets) in of_others {
            let others = workspace.get(&package).cloned().unwrap_or_default();
            for set in sets.difference(&others).filter(|_| command.contains_key(&package)) {
                wrong.insert(format!("{package} for {name}: [{set}] instead of {others:?}"));
            }
        }
    };
    for (name, edges) in host_crates() {
        edges.iter().for_each(|edges| compare(&name, &["--package", &name], edges));
    }
    // The sandbox alone is tested, too.
    compare("the tests of the sandbox", &["--package", "fumehood", "--no-default-features"], "normal,build,dev");
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "add these features to host/workspace-hack/Cargo.toml:\n{}", wrong.join("\n"));
}

#[test]
fn tests_use_the_crates_of_the_command() {
    // What macros are compiled from may differ.
    let workspace = features(&["--workspace", "--exclude", "fumehood-guest-macros"], "normal,dev,no-proc-macro");
    let command = features(&["--package", "fumehood-cli"], "normal,no-proc-macro");
    assert!(command.keys().any(|package| package.starts_with("fumehood-runtime ")), "{command:?}");
    let differs = |(package, set): &(&String, &BTreeSet<String>)| workspace.get(*package) != Some(*set);
    let wrong: Vec<String> = command
        .iter()
        .filter(differs)
        .map(|(package, set)| format!("{package}: {set:?} for the command, {:?} for the tests", workspace.get(package)))
        .collect();
    assert!(wrong.is_empty(), "add these features to host/workspace-hack/Cargo.toml:\n{}", wrong.join("\n"));
}

/// Returns the third-party packages that `fumehood` needs with these features alone.
fn dependencies(features: &str) -> BTreeSet<String> {
    let selection = ["--package", "fumehood", "--no-default-features", "--features", features];
    let tree = ["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p}", "--edges", "normal,build"];
    let lines = cargo(&[&tree[..], &selection].concat());
    let packages = lines.lines().map(|line| line.trim_end_matches(" (*)"));
    packages.filter(|package| !package.contains("(/")).map(str::to_owned).collect()
}

/// Returns the names of packages that are among the dependencies.
fn named(dependencies: &BTreeSet<String>, names: &[&'static str]) -> Vec<&'static str> {
    let is_there = |name: &&&str| dependencies.iter().any(|package| package.starts_with(&format!("{name} ")));
    names.iter().filter(is_there).copied().collect()
}

#[test]
fn sandbox_alone_has_no_mcp_database_model_or_tls() {
    /// Maximum number of packages that the sandbox needs: the engine has more than half of them.
    const MAX_DEPENDENCIES: usize = 255;
    let optional = [
        "genai",
        "libsqlite3-sys",
        "reqwest",
        "ring",
        "rmcp",
        "rusqlite",
        "rustls",
        "rustls-platform-verifier",
        "tokio-postgres",
    ];
    let alone = dependencies("");
    println!("fumehood without features has {} dependencies; of its features", alone.len());
    assert_eq!(named(&alone, &optional), [""; 0]);
    assert!((100..=MAX_DEPENDENCIES).contains(&alone.len()), "{}: {alone:?}", alone.len());
    for (feature, adds) in [
        ("agent", &["genai", "reqwest", "ring", "rustls", "rustls-platform-verifier"][..]),
        ("cell", &["ring", "rustls"]),
        ("mcp", &["reqwest", "ring", "rmcp", "rustls", "rustls-platform-verifier"]),
        ("postgres", &["libsqlite3-sys", "ring", "rusqlite", "rustls", "rustls-platform-verifier", "tokio-postgres"]),
        ("registry", &["reqwest", "ring", "rustls", "rustls-platform-verifier"]),
        ("storage", &["libsqlite3-sys", "rusqlite"]),
        ("telemetry", &["reqwest", "ring", "rustls", "rustls-platform-verifier"]),
        ("tls", &["ring", "rustls", "rustls-platform-verifier"]),
    ] {
        let with = dependencies(feature);
        println!("  {feature} adds {}", with.difference(&alone).count());
        assert_eq!(named(&with, &optional), adds, "{feature}");
    }
}
