//! Rules about what is published: manifests and first pages of crates, and one version everywhere.

use std::path::PathBuf;

use serde_json::json;

use super::{PACKAGES, Package, fail_on, read, root};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The system that docs.rs builds for; the host does not compile for others.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// The categories of crates.io that our crates are in. Those that crates.io does not know are left out there.
const CATEGORIES: [&str; 15] = [
    "api-bindings",
    "asynchronous",
    "authentication",
    "config",
    "data-structures",
    "database",
    "development-tools",
    "development-tools::procedural-macro-helpers",
    "development-tools::profiling",
    "network-programming",
    "os",
    "virtualization",
    "wasm",
    "web-programming::http-client",
    "web-programming::http-server",
];
/// Limits of crates.io.
const MAX_KEYWORDS: usize = 5;
const MAX_KEYWORD_BYTES: usize = 20;
/// Crates without an example: another crate documents and re-exports what is in them.
const RE_EXPORTED: [&str; 1] = ["fumehood-guest-macros"];

fn published() -> impl Iterator<Item = &'static Package> {
    PACKAGES.iter().filter(|package| package.is_published())
}

/// Returns the texts of an array of a manifest.
fn texts<'p>(package: &'p Package, key: &str) -> Vec<&'p str> {
    package.manifest[key].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

fn is_keyword(word: &str) -> bool {
    let is_allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    word.len() <= MAX_KEYWORD_BYTES && word.bytes().all(is_allowed)
}

/// Returns whether the documentation of a package names the features that an item needs.
fn has_labels(package: &Package) -> bool {
    package.manifest["metadata"]["docs"]["rs"]["rustdoc-args"] == json!(["--cfg", "docsrs"])
        && read(&root().join(&package.folder).join("src/lib.rs")).contains("#![cfg_attr(docsrs, feature(doc_cfg))]")
}

/// Returns whether a crate needs those of the same release. Dependencies of tests are not published.
fn has_exact_dependencies(manifest: &serde_json::Value) -> bool {
    let mut published =
        manifest["dependencies"].as_array().unwrap().iter().filter(|dependency| dependency["req"] != "*");
    published.all(|dependency| {
        !dependency["name"].as_str().unwrap().starts_with("fumehood") || dependency["req"] == format!("={VERSION}")
    })
}

/// Returns the rules that the manifest of a package breaks.
fn faults_of_manifest(package: &Package) -> Vec<String> {
    let Package { name, manifest, .. } = package;
    let description = manifest["description"].as_str().unwrap_or_default();
    let keywords = texts(package, "keywords");
    let categories = texts(package, "categories");
    let docs = &manifest["metadata"]["docs"]["rs"];
    let has_features = manifest["features"].as_object().is_some_and(|features| !features.is_empty());
    let rules = [
        (!description.is_empty() && !description.ends_with('.'), "`description` is a phrase without a full stop"),
        ((1..=MAX_KEYWORDS).contains(&keywords.len()), "`keywords` has one to five"),
        (keywords.iter().all(|word| is_keyword(word)), "a keyword has at most 20 small letters, digits and hyphens"),
        (!categories.is_empty(), "`categories` has at least one"),
        (categories.iter().all(|slug| CATEGORIES.contains(slug)), "a category is a slug in the list of this test"),
        (manifest["license"] == "Apache-2.0 OR MIT", "`license.workspace = true` is missing"),
        (manifest["rust_version"].is_string(), "`rust-version.workspace = true` is missing"),
        (manifest["readme"].is_string(), "`readme` is missing"),
        (manifest["documentation"] == format!("https://docs.rs/{name}"), "`documentation` is the page of docs.rs"),
        (docs["targets"] == json!([TARGET]), "`[package.metadata.docs.rs] targets` is Linux on x86-64 alone"),
        (!has_features || docs["all-features"] == json!(true), "`[package.metadata.docs.rs] all-features = true`"),
        (
            !has_features || has_labels(package),
            "docs.rs labels what needs a feature: `rustdoc-args`, and `doc_cfg` in lib.rs",
        ),
        (has_exact_dependencies(manifest), "dependencies of the workspace have the version `=VERSION`"),
    ];
    rules.iter().filter(|(holds, _)| !holds).map(|(_, rule)| format!("{name}: {rule}")).collect()
}

/// Finds the faults of the documentation that a crate begins with.
fn faults_of_page(name: &str, library: &str) -> Vec<String> {
    let page = library.lines().map_while(|line| line.strip_prefix("//!"));
    let page: String = page.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect();
    let first = page.split("\n\n").next().unwrap_or_default().trim();
    let is_sentence = first.ends_with('.') && !first.trim_end_matches('.').contains(". ");
    // Rust is the language of a block without one.
    let has_example = page.split("```").skip(1).step_by(2).any(|block| block.starts_with(['\n', 'n']));
    let mut faults = Vec::new();
    if !is_sentence {
        faults.push(format!("{name}: the first paragraph is not one sentence: {first}"));
    }
    if !has_example && !RE_EXPORTED.contains(&name) {
        faults.push(format!("{name}: it has no example"));
    }
    faults
}

/// Finds the links of a page that lead to files beside it.
fn relative_links(page: &str) -> Vec<&str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.starts_with("https://") && !target.starts_with('#')).collect()
}

/// Returns the versions in a text that are ours to set: in names of packages and files, and in dependencies.
fn versions(text: &str) -> Vec<String> {
    let number = |rest: &str| -> String { rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect() };
    let names = ["fumehood-", "fumehood-cli-", "fumehood_cli-", "fumehood/"].into_iter();
    let named = names.flat_map(|name| text.split(name).skip(1).map(number));
    let named = named.map(|version| version.trim_end_matches('.').to_owned()).filter(|version| version.contains('.'));
    let lines = text.lines().filter(|line| line.starts_with("fumehood"));
    let required = lines.filter_map(|line| line.split_once(" = ")).map(|(_, value)| value);
    let required = required.filter_map(|value| value.trim_start_matches("{ version = ").strip_prefix('"').map(number));
    named.chain(required).collect()
}

#[test]
fn manifests_of_published_crates_are_complete() {
    assert!(published().count() > 15);
    let broken: Vec<String> = published().flat_map(faults_of_manifest).collect();
    fail_on("crates.io and docs.rs read these from Cargo.toml", &broken);
}

#[test]
fn pages_of_crates_begin_with_a_sentence_and_an_example() {
    let library = |package: &Package| read(&root().join(&package.folder).join("src/lib.rs"));
    let broken: Vec<String> =
        published().flat_map(|package| faults_of_page(&package.name, &library(package))).collect();
    fail_on("the first page of a crate says what it is, and shows it", &broken);
    let page = |text: &str| faults_of_page("name", text).len();
    assert_eq!(page("//! Says it. And more.\n//!\n//! ```text\n//! no Rust\n//! ```\n"), 2);
    assert_eq!(page("//! Says it.\n//!\n//! ```\n//! assert!(true);\n//! ```\n"), 0);
}

#[test]
fn published_readmes_link_to_addresses() {
    let readme = |package: &Package| root().join(&package.folder).join(package.manifest["readme"].as_str().unwrap());
    let mut pages: Vec<PathBuf> = published().map(readme).collect();
    pages.extend(["bindings/python/README.md", "bindings/node/README.md"].map(|page| root().join(page)));
    let mut broken = Vec::new();
    for page in pages {
        let text = read(&page);
        broken.extend(relative_links(&text).iter().map(|link| format!("{}: {link}", page.display())));
    }
    fail_on("crates.io, PyPI and npm have no files beside a readme", &broken);
    assert_eq!(relative_links("[a](https://docs.rs/a) [b](#b) [c](../c.md)"), ["../c.md"]);
}

#[test]
fn packages_image_and_pages_have_one_version() {
    let mut broken = Vec::new();
    let packages = PACKAGES.iter().filter(|package| package.manifest["version"] != VERSION);
    broken.extend(packages.map(|package| format!("{}: {}", package.folder, package.manifest["version"])));
    // Their builds take the version from Cargo.toml.
    for (file, text) in [
        ("bindings/python/pyproject.toml", "dynamic = [\"version\"]"),
        ("release/python/pyproject.toml", "dynamic = [\"version\"]"),
        ("bindings/node/package/package.json", "\"version\": \"0.0.0\""),
        ("release/npm/package.json", "\"version\": \"0.0.0\""),
        ("release/Containerfile", &format!("org.opencontainers.image.version=\"{VERSION}\"")),
    ] {
        if !read(&root().join(file)).contains(text) {
            broken.push(format!("{file}: it lacks `{text}`"));
        }
    }
    let changes = read(&root().join("CHANGELOG.md"));
    let newest = changes.lines().find_map(|line| line.strip_prefix("## ")).unwrap_or_default();
    if newest.split(' ').next() != Some(VERSION) {
        broken.push(format!("CHANGELOG.md begins with {newest}"));
    }
    let mut pages = ["README.md", "host/README.md", "guest-sdk/README.md"].map(|page| root().join(page)).to_vec();
    pages.extend(std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    let mut count = 0;
    for page in pages {
        let versions = versions(&read(&page));
        count += versions.len();
        let is_ours = |version: &String| VERSION == version || VERSION.starts_with(&format!("{version}."));
        let others = versions.iter().filter(|version| !is_ours(version));
        broken.extend(others.map(|version| format!("{}: {version}", page.display())));
    }
    assert!(count >= 3, "{count} versions in the pages");
    fail_on(&format!("everything of a release has the version {VERSION} of Cargo.toml"), &broken);
}
