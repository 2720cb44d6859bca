//! The crates of the host resolve their dependencies to the same features, so that none is compiled twice.

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
        if let Some((package, set)) = line.rsplit_once('|')
            && !package.contains("(/")
        {
            let package = package.trim_end_matches(" (proc-macro)");
            features.entry(package.to_owned()).or_default().insert(set.to_owned());
        }
    }
    features
}

/// Returns the crates of the host. Guest crates are also built for WebAssembly, with fewer features.
fn host_crates() -> Vec<String> {
    let metadata: serde_json::Value =
        serde_json::from_str(&cargo(&["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"]))
            .unwrap();
    let root = metadata["workspace_root"].as_str().unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let is_of_the_host = |package: &&serde_json::Value| {
        let manifest = package["manifest_path"].as_str().unwrap().strip_prefix(root).unwrap();
        ["/host/", "/tests/", "/example-tools/builder/"].iter().any(|folder| manifest.starts_with(folder))
    };
    packages.filter(is_of_the_host).map(|package| package["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn host_crates_share_compiled_dependencies() {
    let workspace = features(&["--workspace"], "normal,build,dev");
    // Dependencies of the tests alone are small, and left out.
    let command = features(&["--package", "fumehood-cli"], "normal,build");
    assert!(command.len() > 100, "{command:?}");
    let mut wrong = BTreeSet::new();
    for name in host_crates() {
        for edges in ["normal,build", "normal,build,dev"] {
            for (package, sets) in features(&["--package", &name], edges) {
                let others = workspace.get(&package).cloned().unwrap_or_default();
                for set in sets.difference(&others).filter(|_| command.contains_key(&package)) {
                    wrong.insert(format!("{package} for {name}: [{set}] instead of {others:?}"));
                }
            }
        }
    }
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "add these features to host/workspace-hack/Cargo.toml:\n{}", wrong.join("\n"));
}
