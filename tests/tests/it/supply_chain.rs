//! The notes about dependencies describe the releases in the lock file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::Table;

/// Crates that must have notes, each with those that are covered by the same notes.
const CORE: [(&str, &[&str]); 8] = [
    ("wasmtime", &["wasmtime-wasi", "wasmtime-wasi-http", "cranelift-codegen", "regalloc2", "wasmparser"]),
    ("cap-std", &["cap-primitives", "cap-fs-ext", "io-lifetimes", "io-extras"]),
    ("rustix", &[]),
    ("rusqlite", &["libsqlite3-sys"]),
    ("rustls", &["rustls-webpki", "ring"]),
    ("hyper", &["httparse", "http", "bytes"]),
    ("landlock", &[]),
    ("seccompiler", &[]),
];

/// Points that the notes about a crate have to cover.
const ITEMS: [&str; 7] =
    ["Maintainers", "Trusted with", "Unsafe", "Build scripts", "Advisories", "Contained by", "Noticed by"];

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

/// Returns the locked versions of every package.
fn locked(lock: &str) -> BTreeMap<String, BTreeSet<String>> {
    let lock: Table = lock.parse().unwrap();
    let mut versions = BTreeMap::<String, BTreeSet<String>>::new();
    for package in lock["package"].as_array().unwrap() {
        let text = |key: &str| package[key].as_str().unwrap().to_owned();
        versions.entry(text("name")).or_default().insert(text("version"));
    }
    versions
}

/// Returns the sections of a page in Markdown, by their headings of the second level.
fn sections(page: &str) -> BTreeMap<&str, &str> {
    page.split("\n## ").skip(1).filter_map(|section| section.split_once('\n')).collect()
}

/// Finds the faults of the notes about a crate and those that are covered with it.
fn faults_of(
    sections: &BTreeMap<&str, &str>,
    versions: &BTreeMap<String, BTreeSet<String>>,
    core: &str,
    with: &[&str],
) -> Vec<String> {
    // Tests and builds use other versions of wasmparser: the notes are about the one that wasmtime uses, which the root
    // manifest pins.
    let has = |name: &str, version: &str| versions.get(name).is_some_and(|locked| locked.contains(version));
    let Some((heading, section)) = sections.iter().find(|(heading, _)| heading.split(' ').next() == Some(core)) else {
        return vec![format!("supply-chain/REVIEW.md has no section about {core}")];
    };
    let mut faults = Vec::new();
    let mut noted = BTreeMap::from([(core, heading.split(' ').nth(1).unwrap_or_default())]);
    let companions = section.lines().find_map(|line| line.strip_prefix("Together with: "));
    for companion in companions.unwrap_or_default().trim_end_matches('.').split(", ") {
        noted.extend(companion.split_once(' '));
    }
    for name in std::iter::once(&core).chain(with) {
        match noted.get(name) {
            None => faults.push(format!("supply-chain/REVIEW.md says nothing about {name} beside {core}")),
            Some(version) if has(name, version) => {}
            Some(version) => faults.push(format!(
                "supply-chain/REVIEW.md is about {name} {version}, Cargo.lock has {:?}: read the new release, then change the notes",
                versions.get(*name)
            )),
        }
    }
    for item in ITEMS {
        if !section.contains(&format!("\n- {item}: ")) {
            faults.push(format!("the notes about {core} lack the item \"{item}\""));
        }
    }
    faults
}

#[test]
fn every_core_crate_has_notes_about_its_locked_release() {
    let page = read("supply-chain/REVIEW.md");
    let versions = locked(&read("Cargo.lock"));
    let sections = sections(&page);
    let faults: Vec<String> =
        CORE.iter().flat_map(|(core, with)| faults_of(&sections, &versions, core, with)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn finds_notes_that_are_behind_or_incomplete() {
    let page = "# Notes\n\n## a 1.0.0\n\nTogether with: b 2.0.0.\n\n- Maintainers: x\n";
    let versions = locked(
        "[[package]]\nname = \"a\"\nversion = \"1.0.1\"\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\n\
         [[package]]\nname = \"c\"\nversion = \"3.0.0\"\n",
    );
    let faults = faults_of(&sections(page), &versions, "a", &["b", "c"]);
    assert!(faults[0].contains("a 1.0.0"), "{faults:?}");
    assert!(faults[1].contains("nothing about c"), "{faults:?}");
    assert!(faults[2].contains("\"Trusted with\""), "{faults:?}");
    assert_eq!(faults.len(), 8, "{faults:?}");
    assert_eq!(faults_of(&sections(page), &versions, "d", &[]), ["supply-chain/REVIEW.md has no section about d"]);
}

/// SECURITY.md names the release and the features of the engine that is built.
#[test]
fn security_names_the_engine_that_is_built() {
    let manifest: Table = read("Cargo.toml").parse().unwrap();
    let page = read("SECURITY.md");
    let sections = sections(&page);
    let section = sections.get("The engine and its advisories").expect("the section about the engine");
    for name in ["wasmtime", "wasmtime-wasi", "wasmtime-wasi-http"] {
        let dependency = &manifest["workspace"]["dependencies"][name];
        let version = dependency["version"].as_str().unwrap().trim_start_matches('=');
        let features: Vec<&str> =
            dependency["features"].as_array().unwrap().iter().map(|feature| feature.as_str().unwrap()).collect();
        let features: Vec<String> = features.iter().map(|feature| format!("`{feature}`")).collect();
        let row = format!("| `{name}` | {version} | {} |", features.join(", "));
        assert!(section.contains(&row), "SECURITY.md lacks the row\n{row}");
    }
}
