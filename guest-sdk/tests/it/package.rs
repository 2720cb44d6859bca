//! The package of this crate contains everything that building a component requires.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn wit_files(folder: &str) -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.map(|path| (name(&path), std::fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn wit_matches_the_workspace() {
    let contract = wit_files("../wit");
    assert!(contract.contains_key("world.wit"), "{contract:?}");
    assert_eq!(wit_files("wit"), contract, "copy `wit/` to `guest-sdk/wit/`");
}

#[test]
fn package_contains_the_wit() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["package", "--list", "--allow-dirty", "--offline"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = cargo.output().unwrap();
    let (files, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{errors}");
    for name in wit_files("wit").keys() {
        assert!(files.lines().any(|file| file == format!("wit/{name}")), "{name}: {files}");
    }
}
