//! The list of crates that a component was built from, in the format of cargo-auditable.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr as _;

use auditable_serde::VersionInfo;
use serde::Deserialize;
use serde_json::json;

use super::BuildError;

/// The crates of a component, with their versions and sources.
#[derive(Debug, Clone, PartialEq)]
pub struct Dependencies {
    versions: VersionInfo,
}

/// The description of a package and its dependencies by `cargo metadata`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct CargoMetadata {
    pub(super) packages: Vec<CargoPackage>,
    pub(super) resolve: Option<Resolve>,
    pub(super) target_directory: std::path::PathBuf,
    /// The folder of intermediate files; `None` for a cargo that has no setting for it.
    pub(super) build_directory: Option<std::path::PathBuf>,
    pub(super) workspace_root: std::path::PathBuf,
}

/// A package.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct CargoPackage {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) source: Option<String>,
    pub(super) manifest_path: std::path::PathBuf,
    pub(super) description: Option<String>,
    pub(super) license: Option<String>,
    pub(super) repository: Option<String>,
    pub(super) homepage: Option<String>,
    #[serde(default)]
    pub(super) authors: Vec<String>,
    pub(super) targets: Vec<CargoTarget>,
}

/// A library or program of a package.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct CargoTarget {
    pub(super) kind: Vec<String>,
}

/// The graph of dependencies.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Resolve {
    pub(super) root: Option<String>,
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Clone, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Clone, Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

impl EdgeKind {
    fn role(&self) -> Option<Role> {
        match self.kind.as_deref() {
            None => Some(Role::Runtime),
            Some("build") => Some(Role::Build),
            Some(_) => None,
        }
    }
}

/// The part that a crate has in a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Build,
    Runtime,
}

impl CargoPackage {
    fn is_macro(&self) -> bool {
        self.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "proc-macro"))
    }

    fn source_name(&self) -> &'static str {
        match self.source.as_deref() {
            None => "local",
            Some("registry+https://github.com/rust-lang/crates.io-index") => "crates.io",
            Some(source) if source.starts_with("git+") => "git",
            Some(_) => "registry",
        }
    }
}

impl Dependencies {
    /// Creates the list of the crates that the root of a graph was built from, without those of tests. Macros and what
    /// build scripts use count as `build`.
    ///
    /// # Errors
    /// If the graph has no root, or is not consistent.
    pub(super) fn from_metadata(metadata: &CargoMetadata) -> Result<Self, BuildError> {
        let resolve = metadata.resolve.as_ref().ok_or_else(|| inconsistent_metadata("it lists no dependencies"))?;
        let root =
            resolve.root.as_deref().ok_or_else(|| inconsistent_metadata("the folder has no package of its own"))?;
        let packages: BTreeMap<&str, &CargoPackage> =
            metadata.packages.iter().map(|package| (package.id.as_str(), package)).collect();
        let nodes: BTreeMap<&str, &Node> = resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let roles = roles(root, &packages, &nodes);
        let mut listed: Vec<&CargoPackage> = roles.keys().filter_map(|id| packages.get(id).copied()).collect();
        listed.sort_by(|a, b| (&a.name, &a.version, &a.id).cmp(&(&b.name, &b.version, &b.id)));
        let places: BTreeMap<&str, usize> =
            listed.iter().enumerate().map(|(place, package)| (package.id.as_str(), place)).collect();
        let entry = |package: &&CargoPackage| {
            let edges = nodes.get(package.id.as_str()).map(|node| node.deps.as_slice()).unwrap_or_default();
            let used = edges.iter().filter(|edge| edge.role().is_some());
            let dependencies: BTreeSet<usize> =
                used.filter_map(|edge| places.get(edge.pkg.as_str()).copied()).collect();
            json!({
                "name": package.name,
                "version": package.version,
                "source": package.source_name(),
                "kind": if roles.get(package.id.as_str()) == Some(&Role::Build) { "build" } else { "runtime" },
                "dependencies": dependencies,
                "root": package.id == root,
            })
        };
        let text = json!({"packages": listed.iter().map(entry).collect::<Vec<_>>(), "format": 1}).to_string();
        let versions = VersionInfo::from_str(&text).map_err(|error| inconsistent_metadata(&error.to_string()))?;
        Ok(Self { versions })
    }

    /// Returns the number of crates, the component's own included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.versions.packages.len()
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.versions.packages.is_empty()
    }

    /// Returns the custom section with the list.
    pub(super) fn section(&self) -> Result<wasm_metadata::Dependencies, BuildError> {
        wasm_metadata::Dependencies::new(self.versions.clone())
            .map_err(|error| BuildError::Metadata { field: "list of dependencies", reason: error.to_string() })
    }
}

fn inconsistent_metadata(what: &str) -> BuildError {
    BuildError::Failed {
        program: "cargo metadata".to_owned(),
        reason: format!(": {what}; run it in the folder of the tool to see its messages"),
    }
}

impl Edge {
    /// Returns the part of a dependency; `None` if only tests use it.
    fn role(&self) -> Option<Role> {
        self.dep_kinds.iter().filter_map(EdgeKind::role).max()
    }
}

/// Returns the part of every package that the root is built from.
fn roles<'a>(
    root: &'a str,
    packages: &BTreeMap<&'a str, &'a CargoPackage>,
    nodes: &BTreeMap<&'a str, &'a Node>,
) -> BTreeMap<&'a str, Role> {
    let mut roles: BTreeMap<&str, Role> = BTreeMap::new();
    let mut waiting = vec![(root, Role::Runtime)];
    while let Some((id, role)) = waiting.pop() {
        let role = if packages.get(id).is_some_and(|package| package.is_macro()) { Role::Build } else { role };
        if roles.get(id).is_some_and(|known| *known >= role) {
            continue;
        }
        roles.insert(id, role);
        for edge in nodes.get(id).map(|node| node.deps.as_slice()).unwrap_or_default() {
            waiting.extend(edge.role().map(|edge_role| (edge.pkg.as_str(), edge_role.min(role))));
        }
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> CargoMetadata {
        fn edge(to: &str, kind: Option<&str>) -> serde_json::Value {
            json!({"pkg": to, "dep_kinds": [{"kind": kind}]})
        }

        fn package(id: &str, kind: &str, source: Option<&str>) -> serde_json::Value {
            json!({"id": id, "name": id, "version": "1.0.0", "source": source, "manifest_path": "/x/Cargo.toml",
                "targets": [{"kind": [kind]}]})
        }

        let registry = Some("registry+https://github.com/rust-lang/crates.io-index");
        let value = json!({
            "packages": [
                package("tool", "cdylib", None),
                package("serde", "lib", registry),
                package("derive", "proc-macro", registry),
                package("syn", "lib", Some("git+https://example.com")),
                package("tempfile", "lib", registry),
            ],
            "resolve": {"root": "tool", "nodes": [
                {"id": "tool", "deps": [edge("serde", None), edge("tempfile", Some("dev"))]},
                {"id": "serde", "deps": [edge("derive", None)]},
                {"id": "derive", "deps": [edge("syn", None)]},
                {"id": "syn", "deps": []},
                {"id": "tempfile", "deps": []},
            ]},
            "target_directory": "/x/target",
            "workspace_root": "/x",
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn lists_what_a_component_was_built_from() {
        let dependencies = Dependencies::from_metadata(&metadata()).unwrap();
        let found: Vec<_> = dependencies
            .versions
            .packages
            .iter()
            .map(|package| {
                (
                    package.name.as_str(),
                    format!("{:?} {:?}", package.source, package.kind),
                    package.dependencies.clone(),
                )
            })
            .collect();
        let expected = [
            ("derive", "CratesIo Build".to_owned(), vec![2]),
            ("serde", "CratesIo Runtime".to_owned(), vec![0]),
            ("syn", "Git Build".to_owned(), vec![]),
            ("tool", "Local Runtime".to_owned(), vec![1]),
        ];
        assert_eq!(found, expected);
        assert!(dependencies.versions.packages[3].root && dependencies.len() == 4 && !dependencies.is_empty());
    }

    #[test]
    fn section_is_read_back_from_a_component() {
        use wasm_encoder_258::ComponentSection as _;
        let dependencies = Dependencies::from_metadata(&metadata()).unwrap();
        let mut component = b"\0asm\x0d\0\x01\0".to_vec();
        dependencies.section().unwrap().append_to_component(&mut component);
        let payload = wasm_metadata::Payload::from_binary(&component).unwrap();
        let found = payload.metadata().dependencies.as_ref().unwrap();
        assert_eq!(found.version_info(), &dependencies.versions);
    }

    #[test]
    fn rejects_a_graph_without_a_root() {
        let mut metadata = metadata();
        metadata.resolve.as_mut().unwrap().root = None;
        let error = Dependencies::from_metadata(&metadata).unwrap_err().to_string();
        assert!(error.contains("the folder has no package of its own"), "{error}");
    }
}
