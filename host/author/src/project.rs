//! The project of a tool: a folder with the manifest of its language.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::language::Language;

/// The target that components of Rust are compiled for, unless the manifest says otherwise.
const DEFAULT_RUST_TARGET: &str = "wasm32-unknown-unknown";
/// The manifests of the languages, in the order in which they are looked for.
const MANIFESTS: [(&str, Language); 4] = [
    ("Cargo.toml", Language::Rust),
    ("pyproject.toml", Language::Python),
    ("package.json", Language::Javascript),
    ("tool.toml", Language::C),
];

/// The project of a tool.
#[derive(Debug, Clone)]
pub struct Project {
    /// Its folder.
    pub folder: PathBuf,
    /// The name of the tool, and of its component.
    pub name: String,
    /// Its language.
    pub language: Language,
    /// The descriptive part of its manifest. That of a Rust project is read by cargo when it is built.
    pub about: About,
    /// The settings of its build.
    pub settings: Settings,
}

/// The descriptive part of a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The version.
    pub version: Option<String>,
    /// A description for people, in one line.
    pub description: Option<String>,
    /// The licence, as an SPDX expression.
    pub license: Option<String>,
    /// The URL of the source code.
    pub repository: Option<String>,
    /// The URL of a page about the tool.
    pub homepage: Option<String>,
    /// The authors.
    pub authors: Vec<String>,
}

/// The build settings of a project: `[package.metadata.fumehood]` in `Cargo.toml`, `[tool.fumehood]` in
/// `pyproject.toml`, `fumehood` in `package.json`, and `[build]` in `tool.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The compilation target of a Rust project.
    pub target: Option<String>,
    /// The module of a Python or JavaScript project.
    pub module: Option<String>,
    /// The source files of a C project.
    pub sources: Vec<PathBuf>,
    /// The folder with the WIT that the component is built from.
    pub wit: Option<PathBuf>,
    /// The world in it.
    pub world: Option<String>,
    /// The features of the runtime of JavaScript that the component does without.
    pub disable: Vec<String>,
}

/// Errors of opening a project.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectError {
    /// The folder has no manifest.
    #[error("{} is not the folder of a tool, because it has none of {}; create a project with `fumehood new NAME`", .0.display(), manifests())]
    Missing(PathBuf),
    /// The manifest cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The manifest.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The manifest is not valid.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// The manifest.
        path: PathBuf,
        /// The error and its place.
        reason: String,
    },
}

fn manifests() -> String {
    MANIFESTS.map(|(name, _)| name).join(", ")
}

impl Project {
    /// Opens the project in a folder.
    ///
    /// # Errors
    /// If there is no manifest, or it is not valid.
    pub fn open(folder: &Path) -> Result<Self, ProjectError> {
        for (name, language) in MANIFESTS {
            let path = folder.join(name);
            match fs::read_to_string(&path) {
                Ok(text) => return Self::parse(folder, language, &path, &text),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(source) => return Err(ProjectError::Read { path, source }),
            }
        }
        Err(ProjectError::Missing(folder.to_owned()))
    }

    fn parse(folder: &Path, language: Language, path: &Path, text: &str) -> Result<Self, ProjectError> {
        let malformed = |reason: String| ProjectError::Malformed { path: path.to_owned(), reason };
        let (name, about, settings) = match language {
            Language::Rust => CargoManifest::read(text).map_err(malformed)?,
            Language::Python => PythonManifest::read(text).map_err(malformed)?,
            Language::Javascript => NodeManifest::read(text).map_err(malformed)?,
            Language::C => ToolManifest::read(text).map_err(malformed)?,
        };
        let name = component_name(&name);
        fumehood::Namespace::parse(&name).map_err(|error| malformed(error.to_string()))?;
        Ok(Self { folder: folder.to_owned(), name, language, about, settings })
    }

    /// Returns the file that the built component is written to.
    #[must_use]
    pub fn component(&self) -> PathBuf {
        self.join(Path::new("dist")).join(format!("{}.wasm", self.name))
    }

    /// Returns the folder of the cases.
    #[must_use]
    pub fn cases(&self) -> PathBuf {
        self.join(Path::new("tests"))
    }

    /// Returns the folder of the WIT that the component is built from; `wit` if the manifest names none.
    #[must_use]
    pub fn wit(&self) -> PathBuf {
        self.join(self.settings.wit.as_deref().unwrap_or(Path::new("wit")))
    }

    /// Returns the path of a part of the project, for people too: `dist`, and not `./dist`.
    fn join(&self, part: &Path) -> PathBuf {
        if self.folder == Path::new(".") { part.to_owned() } else { self.folder.join(part) }
    }

    /// Returns the target triple of a Rust project.
    #[must_use]
    pub fn rust_target(&self) -> &str {
        self.settings.target.as_deref().unwrap_or(DEFAULT_RUST_TARGET)
    }
}

/// Returns the name of a component for that of a package: `@scope/my_tool` becomes `my-tool`.
fn component_name(package: &str) -> String {
    let own = package.rsplit('/').next().unwrap_or(package);
    own.replace(['_', '.'], "-").to_lowercase()
}

/// The parts of a manifest that a build uses.
type Parts = (String, About, Settings);

#[derive(Deserialize)]
struct CargoManifest {
    package: CargoPackage,
}

#[derive(Deserialize)]
struct CargoPackage {
    name: String,
    #[serde(default)]
    metadata: CargoTools,
}

#[derive(Default, Deserialize)]
struct CargoTools {
    #[serde(default)]
    fumehood: Settings,
}

impl CargoManifest {
    fn read(text: &str) -> Result<Parts, String> {
        let Self { package } = read_toml(text)?;
        Ok((package.name, About::default(), package.metadata.fumehood))
    }
}

#[derive(Deserialize)]
struct PythonManifest {
    project: PythonProject,
    #[serde(default)]
    tool: CargoTools,
}

#[derive(Deserialize)]
struct PythonProject {
    name: String,
    version: Option<String>,
    description: Option<String>,
    license: Option<String>,
    #[serde(default)]
    urls: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    authors: Vec<PythonAuthor>,
}

#[derive(Deserialize)]
struct PythonAuthor {
    name: Option<String>,
    email: Option<String>,
}

impl PythonManifest {
    fn read(text: &str) -> Result<Parts, String> {
        let Self { project, tool } = read_toml(text)?;
        let url = |wanted: &[&str]| {
            let is_wanted = |name: &str| wanted.iter().any(|wanted| name.eq_ignore_ascii_case(wanted));
            project.urls.iter().find(|(name, _)| is_wanted(name)).map(|(_, url)| url.clone())
        };
        let about = About {
            repository: url(&["repository", "source"]),
            homepage: url(&["homepage"]),
            version: project.version,
            description: project.description,
            license: project.license,
            authors: project.authors.into_iter().filter_map(|author| author.name.or(author.email)).collect(),
        };
        Ok((project.name, about, tool.fumehood))
    }
}

#[derive(Deserialize)]
struct NodeManifest {
    name: String,
    version: Option<String>,
    description: Option<String>,
    license: Option<String>,
    homepage: Option<String>,
    repository: Option<NodeLink>,
    author: Option<NodeLink>,
    #[serde(default)]
    fumehood: Settings,
}

/// A link of `package.json`: text, or an object.
#[derive(Deserialize)]
#[serde(untagged)]
enum NodeLink {
    Text(String),
    Object { url: Option<String>, name: Option<String> },
}

impl NodeLink {
    fn into_text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Object { url, name } => url.or(name),
        }
    }
}

impl NodeManifest {
    fn read(text: &str) -> Result<Parts, String> {
        let manifest: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let about = About {
            version: manifest.version,
            description: manifest.description,
            license: manifest.license,
            repository: manifest.repository.and_then(NodeLink::into_text),
            homepage: manifest.homepage,
            authors: manifest.author.and_then(NodeLink::into_text).into_iter().collect(),
        };
        Ok((manifest.name, about, manifest.fumehood))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolManifest {
    name: String,
    version: Option<String>,
    description: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    homepage: Option<String>,
    #[serde(default)]
    authors: Vec<String>,
    #[serde(default)]
    build: Settings,
}

impl ToolManifest {
    fn read(text: &str) -> Result<Parts, String> {
        let Self { name, version, description, license, repository, homepage, authors, build } = read_toml(text)?;
        Ok((name, About { version, description, license, repository, homepage, authors }, build))
    }
}

fn read_toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| error.to_string().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(name: &str, text: &str) -> Result<Project, ProjectError> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(name), text).unwrap();
        Project::open(folder.path())
    }

    #[test]
    fn reads_the_manifest_of_each_language() {
        let rust =
            open("Cargo.toml", "[package]\nname = 'my_tool'\n[package.metadata.fumehood]\ntarget = 'wasm32-wasip2'");
        let rust = rust.unwrap();
        assert_eq!((rust.name.as_str(), rust.rust_target()), ("my-tool", "wasm32-wasip2"));
        assert!(rust.component().ends_with("dist/my-tool.wasm"));

        let python = "[project]\nname = 'cities'\nversion = '1.2.0'\nlicense = 'MIT'\nauthors = [{ name = 'Ada' }]\n\
             urls = { Source = 'https://example.com' }\n[tool.fumehood]\nmodule = 'app'\nworld = 'tool'";
        let python = open("pyproject.toml", python).unwrap();
        assert_eq!(python.language, Language::Python);
        assert_eq!(python.about.repository.as_deref(), Some("https://example.com"));
        assert_eq!((python.about.authors, python.settings.module), (vec!["Ada".to_owned()], Some("app".to_owned())));

        let node = r#"{"name": "@me/cities", "version": "1.0.0", "repository": {"type": "git", "url": "https://x.example"},
             "fumehood": {"module": "tool.js", "disable": ["http"]}}"#;
        let node = open("package.json", node).unwrap();
        assert_eq!((node.name.as_str(), node.about.repository.as_deref()), ("cities", Some("https://x.example")));
        assert_eq!(node.settings.disable, ["http"]);

        let c = open("tool.toml", "name = 'cities'\n[build]\nsources = ['src/tool.c']\nworld = 'tool'").unwrap();
        assert_eq!((c.language, c.settings.sources.len()), (Language::C, 1));
    }

    #[test]
    fn rejects_manifests_in_words() {
        let check = |name: &str, text: &str, expected: &str| {
            let error = open(name, text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(
            "README.md",
            "",
            "it has none of Cargo.toml, pyproject.toml, package.json, tool.toml; create a project with `fumehood new NAME`",
        );
        check("Cargo.toml", "[workspace]", "missing field `package`");
        check("package.json", "{", "EOF while parsing");
        check("tool.toml", "name = 'a'\ncolour = 1", "unknown field `colour`");
        check("tool.toml", "name = 'a b'", "contains ' '");
        check("tool.toml", "name = 'a'\n[build]\nsource = []", "unknown field `source`");
    }
}
