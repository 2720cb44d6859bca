//! The packages of published crates: what they contain, and that a tool can be built from them in a folder elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fumehood::{Call, Host, Load};
use fumehood_build_tools::{RustTarget, Toolchain};
use fumehood_tests::skip::skip;
use serde_json::{Value, json};
use tempfile::TempDir;
use toml::Table;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the names of the published crates.
fn published() -> Vec<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"]).current_dir(root());
    let metadata: Value = serde_json::from_str(&run(&mut cargo)).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter().filter(|package| package["publish"].is_null());
    packages.map(|package| package["name"].as_str().unwrap().to_owned()).collect()
}

/// Packages these crates, and unpacks them into a temporary folder, each into `NAME-VERSION`.
fn unpack_packages(names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["package", "--no-verify", "--allow-dirty", "--locked", "--offline", "--target-dir"]).arg(folder.path());
    cargo.args(names.iter().flat_map(|name| ["--package", name])).current_dir(root());
    run(&mut cargo);
    for name in names {
        let archive = folder.path().join(format!("package/{name}-{}.crate", env!("CARGO_PKG_VERSION")));
        run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder.path()));
    }
    folder
}

fn package_folder(folder: &TempDir, name: &str) -> PathBuf {
    folder.path().join(format!("{name}-{}", env!("CARGO_PKG_VERSION")))
}

fn read_manifest(path: &Path) -> Table {
    fs::read_to_string(path.join("Cargo.toml")).unwrap().parse().unwrap()
}

/// Returns all dependencies of a manifest, with those of tests and of single targets, as name and specification.
fn all_dependencies(manifest: &Table) -> Vec<(String, toml::Value)> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let tables =
        std::iter::once(manifest).chain(targets.into_iter().flatten().filter_map(|(_, value)| value.as_table()));
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    tables
        .flat_map(|table| kinds.iter().filter_map(|kind| table.get(*kind)?.as_table()))
        .flat_map(|table| table.iter().map(|(name, value)| (name.clone(), value.clone())))
        .collect()
}

#[test]
fn packages_are_complete() {
    let published = published();
    let published: Vec<&str> = published.iter().map(String::as_str).collect();
    let folder = unpack_packages(&published);
    for name in &published {
        let package = package_folder(&folder, name);
        let manifest = read_manifest(&package);
        let about = manifest["package"].as_table().unwrap();
        assert!(package.join(about["readme"].as_str().unwrap()).is_file(), "{name}: no README");
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let text = fs::read_to_string(root().join(licence)).unwrap();
            let packaged = fs::read_to_string(package.join(licence)).ok();
            assert_eq!(packaged, Some(text), "{name}: link `{licence}` of the root to the folder of the crate");
        }
        for (dependency, specification) in all_dependencies(&manifest) {
            assert!(specification.get("path").is_none(), "{name}: {dependency} has a path");
            let is_ours = dependency.starts_with("fumehood");
            assert!(!is_ours || published.contains(&dependency.as_str()), "{name}: {dependency} is not published");
        }
    }
    // Bindings are generated from the contract, of which each package has a copy.
    let contract = read_files(&root().join("wit"));
    assert!(contract.contains_key("world.wit"), "{contract:?}");
    for name in ["fumehood-runtime", "fumehood-guest"] {
        let copy = read_files(&package_folder(&folder, name).join("wit"));
        assert_eq!(copy, contract, "copy `wit/` to the folder of {name}");
    }
    let copy = read_files(&package_folder(&folder, "fumehood-guest").join("wit/0.2"));
    assert_eq!(copy, read_files(&root().join("wit/0.2")), "copy `wit/0.2/` to the folder of fumehood-guest");
    let hooks = read_files(&root().join("wit/hooks"));
    for (name, copy) in [("fumehood-runtime", "wit/hooks"), ("fumehood-guest-hooks", "wit")] {
        assert_eq!(read_files(&package_folder(&folder, name).join(copy)), hooks, "copy `wit/hooks/` to {name}");
    }
    let contract = read_files(&root().join("wit/code"));
    let runtime = package_folder(&folder, "fumehood-runtime");
    assert_eq!(read_files(&runtime.join("wit/code")), contract, "copy `wit/code/` to the folder of fumehood-runtime");
    assert!(runtime.join("interpreters/javascript.wasm").is_file());
}

/// Returns the names and texts of the files in a folder, sorted.
fn read_files(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.map(|path| (name(&path), fs::read_to_string(&path).unwrap())).collect()
}

/// Returns the first block of code in this language, from the README of the guest SDK.
fn readme_block(language: &str) -> String {
    let readme = fs::read_to_string(root().join("guest-sdk/README.md")).unwrap();
    let (_, rest) = readme.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// Builds the tool of the README in a folder of its own, where the SDK is known by its packages alone.
#[tokio::test]
async fn tool_is_built_from_packages_outside_of_the_repository() {
    let toolchain = match Toolchain::choose(RustTarget::Wasi, &root(), &[root().join(".guest-rust/rustc")]) {
        Ok(toolchain) => toolchain,
        Err(error) => return skip("toolchain", &format!("{error:#}")),
    };
    let sdk = ["fumehood-core", "fumehood-guest-macros", "fumehood-guest"];
    let packages = unpack_packages(&sdk);
    let folder = tempfile::tempdir().unwrap();
    let mut manifest: Table = readme_block("toml").parse().unwrap();
    let dependencies = manifest["dependencies"].as_table_mut().unwrap();
    dependencies.insert("fumehood-guest".to_owned(), env!("CARGO_PKG_VERSION").into());
    let patch = |name: &&str| {
        let path = package_folder(&packages, name).to_str().unwrap().to_owned();
        ((*name).to_owned(), Table::from_iter([("path".to_owned(), path.into())]).into())
    };
    let patches: Table = sdk.iter().map(patch).collect();
    manifest.insert("patch".to_owned(), Table::from_iter([("crates-io".to_owned(), patches.into())]).into());
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("Cargo.toml"), toml::to_string(&manifest).unwrap()).unwrap();
    fs::write(folder.path().join("src/lib.rs"), readme_block("rust")).unwrap();
    // The releases that the workspace has, since others may not be on this machine.
    fs::copy(root().join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();

    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--offline", "--release", "--target", RustTarget::Wasi.triple(), "--target-dir", "target"]);
    cargo.current_dir(folder.path()).env("RUSTC", toolchain.rustc()).env("PATH", toolchain.search_path().unwrap());
    run(&mut cargo);

    let host = Host::builder().build().unwrap();
    let built = folder.path().join("target").join(RustTarget::Wasi.triple()).join("release/my_tool.wasm");
    host.load(Load::path(built)).await.unwrap();
    let sum = host.call(Call::new("my-tool__add", json!({"a": 3, "b": 5}))).await;
    assert_eq!(sum.text().as_deref(), Some(r#"{"sum":8}"#));
}
