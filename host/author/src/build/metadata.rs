//! Metadata of a component: name, version, licence, source, revision, and the doc comments of its WIT.

use std::path::Path;
use std::process::Command;

use fumehood::WISHES_SECTION;
use fumehood::settings::Wishes;
use wasm_encoder_258::{ComponentSection as _, CustomSection};
use wasm_metadata::{
    AddMetadata, AddMetadataField, Authors, Description, Homepage, Licenses, Revision, Source, Version,
};

use super::{BuildError, Dependencies};
use crate::project::{About, Project};

/// The metadata of a component, under the names that `wasm-metadata` and registries of images use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// The name.
    pub name: String,
    /// The version.
    pub version: Option<String>,
    /// A description for people.
    pub description: Option<String>,
    /// The licence, as an SPDX expression.
    pub license: Option<String>,
    /// The URL of the source code.
    pub repository: Option<String>,
    /// The URL of a page about the tool.
    pub homepage: Option<String>,
    /// The authors.
    pub authors: Vec<String>,
    /// The revision of the source code that it was built from.
    pub revision: Option<String>,
}

impl Labels {
    /// Creates the metadata of a project without a revision.
    pub(super) fn of(project: &Project, about: About) -> Self {
        let About { version, description, license, repository, homepage, authors } = about;
        let name = project.name.clone();
        Self { name, version, description, license, repository, homepage, authors, revision: None }
    }
}

/// Adds what every component gets: the doc comments of `wit`, its list of dependencies, and its metadata. The component
/// is as a compiler made it, without metadata of its own.
///
/// # Errors
/// If the bytes are not a component, `wit` cannot be read, or a value is not valid.
pub fn finish(
    component: Vec<u8>,
    labels: &Labels,
    wit: Option<&Path>,
    dependencies: Option<&Dependencies>,
) -> Result<Vec<u8>, BuildError> {
    let component = match wit {
        Some(wit) => {
            let embedded = fumehood::WitDocs::read(wit)?.embed(&component);
            embedded.map_err(|error| BuildError::Component(error.to_string()))?
        }
        None => component,
    };
    let labelled = to_metadata(labels)?.to_wasm(&component);
    let mut labelled = labelled.map_err(|error| BuildError::Component(format!("{error:#}")))?;
    if let Some(dependencies) = dependencies {
        dependencies.section()?.append_to_component(&mut labelled);
    }
    Ok(labelled)
}

/// Adds the section with the wishes of the author, if there are any.
///
/// # Errors
/// If they are too large.
pub(super) fn embed_wishes(component: &mut Vec<u8>, wishes: &Wishes) -> Result<(), BuildError> {
    if wishes.is_empty() {
        return Ok(());
    }
    let text = wishes.to_section().map_err(|error| metadata_error("wishes (`wants`)", &error))?;
    let section = CustomSection { name: WISHES_SECTION.into(), data: text.as_bytes().into() };
    section.append_to_component(component);
    Ok(())
}

fn to_metadata(labels: &Labels) -> Result<AddMetadata, BuildError> {
    let license = labels.license.as_deref().map(Licenses::new).transpose();
    let source = labels.repository.as_deref().map(|url| Source::new(web_address(url))).transpose();
    let homepage = labels.homepage.as_deref().map(Homepage::new).transpose();
    let mut metadata = AddMetadata::default();
    metadata.name = AddMetadataField::Set(labels.name.clone());
    metadata.processed_by = vec![("fumehood".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    metadata.licenses = set(license.map_err(|error| metadata_error("licence", &error))?);
    metadata.source = set(source.map_err(|error| metadata_error("address of the source", &error))?);
    metadata.homepage = set(homepage.map_err(|error| metadata_error("homepage", &error))?);
    metadata.version = set(labels.version.clone().map(Version::new));
    metadata.description = set(labels.description.clone().map(Description::new));
    metadata.revision = set(labels.revision.clone().map(Revision::new));
    metadata.authors = set((!labels.authors.is_empty()).then(|| Authors::new(labels.authors.join(", "))));
    Ok(metadata)
}

fn metadata_error(field: &'static str, error: &dyn std::fmt::Display) -> BuildError {
    BuildError::Metadata { field, reason: format!("{error:#}") }
}

fn set<T: std::fmt::Debug + Clone>(value: Option<T>) -> AddMetadataField<T> {
    value.map_or(AddMetadataField::Keep, AddMetadataField::Set)
}

/// Returns the address of a repository for a browser: `git+https://…` is the form of npm.
fn web_address(url: &str) -> &str {
    url.strip_prefix("git+").unwrap_or(url)
}

/// Returns the commit that the folder is checked out from, unless files were changed since.
pub(super) fn revision(folder: &Path, notes: &mut Vec<String>) -> Option<String> {
    let commit = run_git(folder, &["rev-parse", "--verify", "--quiet", "HEAD"]).filter(|commit| !commit.is_empty())?;
    let changes = run_git(folder, &["status", "--porcelain", "--", "."])?;
    if changes.is_empty() {
        return Some(commit);
    }
    notes.push("the folder has uncommitted changes, so no source revision is embedded".to_owned());
    None
}

/// Returns what git writes; `None` if it fails.
fn run_git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use wasm_metadata::Payload;

    use super::*;

    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn embeds_metadata_and_documentation() {
        fn text(value: Option<&dyn std::fmt::Display>) -> Option<String> {
            value.map(ToString::to_string)
        }

        let wit = tempfile::tempdir().unwrap();
        fs::write(wit.path().join("w.wit"), "package a:b;\nworld w {\n  /// Runs it.\n  export run: func();\n}\n")
            .unwrap();
        let labels = Labels {
            name: "cities".to_owned(),
            version: Some("1.2.0".to_owned()),
            license: Some("MIT OR Apache-2.0".to_owned()),
            repository: Some("git+https://example.com/cities.git".to_owned()),
            revision: Some("abc".to_owned()),
            authors: vec!["Ada".to_owned(), "Max".to_owned()],
            ..Labels::default()
        };
        let component = finish(EMPTY.to_vec(), &labels, Some(wit.path()), None).unwrap();
        let payload = Payload::from_binary(&component).unwrap();
        let found = payload.metadata();
        assert_eq!(found.name.as_deref(), Some("cities"));
        assert_eq!(text(found.version.as_ref().map(|v| v as _)).as_deref(), Some("1.2.0"));
        assert_eq!(text(found.licenses.as_ref().map(|v| v as _)).as_deref(), Some("MIT OR Apache-2.0"));
        assert_eq!(text(found.source.as_ref().map(|v| v as _)).as_deref(), Some("https://example.com/cities.git"));
        assert_eq!(text(found.revision.as_ref().map(|v| v as _)).as_deref(), Some("abc"));
        assert_eq!(text(found.authors.as_ref().map(|v| v as _)).as_deref(), Some("Ada, Max"));
        let docs = b"Runs it.";
        assert!(component.windows(docs.len()).any(|window| window == docs));
    }

    #[test]
    fn embeds_wishes_if_there_are_any() {
        let mut component = EMPTY.to_vec();
        embed_wishes(&mut component, &Wishes::default()).unwrap();
        assert_eq!(component, EMPTY);
        let wishes = Wishes::new(serde_json::json!({"env": [{"name": "LANG", "reason": "to greet"}]})).unwrap();
        embed_wishes(&mut component, &wishes).unwrap();
        let embedded = fumehood::read_wishes(&component).unwrap();
        assert_eq!(Wishes::from_section(&embedded).unwrap(), wishes);
        let rules: Vec<String> = (0..60).map(|it| format!("GET https://{it}.example/{}", "a".repeat(400))).collect();
        let large = Wishes::new(serde_json::json!({"http": rules})).unwrap();
        let error = embed_wishes(&mut component, &large).unwrap_err().to_string();
        assert!(error.contains("the maximum is 16384"), "{error}");
    }

    #[test]
    fn rejects_values_that_have_no_meaning() {
        fn check(labels: Labels, expected: &str) {
            let error = finish(EMPTY.to_vec(), &labels, None, None).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }

        check(Labels { license: Some("free".to_owned()), ..Labels::default() }, "the licence of the manifest");
        check(Labels { repository: Some("here".to_owned()), ..Labels::default() }, "the address of the source of");
        let error = finish(b"text".to_vec(), &Labels::default(), None, None).unwrap_err().to_string();
        assert!(error.contains("did not produce a component"), "{error}");
    }

    #[test]
    fn revision_is_that_of_a_clean_checkout() {
        fn git(folder: &Path, arguments: &[&str]) {
            let settings = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"];
            let status = Command::new("git").arg("-C").arg(folder).args(settings).args(arguments).status();
            assert!(status.unwrap().success());
        }

        let folder = tempfile::tempdir().unwrap();
        let mut notes = Vec::new();
        assert_eq!(revision(folder.path(), &mut notes), None);
        git(folder.path(), &["init", "--quiet"]);
        fs::write(folder.path().join("a"), "1").unwrap();
        git(folder.path(), &["add", "a"]);
        git(folder.path(), &["commit", "--quiet", "--message", "a"]);
        assert_eq!(revision(folder.path(), &mut notes).unwrap().len(), 40);
        assert!(notes.is_empty(), "{notes:?}");
        fs::write(folder.path().join("a"), "2").unwrap();
        assert_eq!(revision(folder.path(), &mut notes), None);
        assert!(notes.iter().any(|note| note.contains("uncommitted changes")), "{notes:?}");
    }
}
