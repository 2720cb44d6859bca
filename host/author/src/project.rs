//! The project of a tool: a folder with the manifest of its language.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fumehood::settings::Wishes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::language::Language;

/// The target that components of Rust are compiled for, unless the manifest says otherwise.
const DEFAULT_RUST_TARGET: &str = "wasm32-unknown-unknown";
/// The languages whose manifests are looked for, in this order. A project in TypeScript has the manifest of JavaScript.
const LANGUAGES: [Language; 4] = [Language::Rust, Language::Python, Language::Javascript, Language::C];
/// Folders of a project without sources of its component. Hidden folders and virtual environments of Python are no sources
/// either.
const OTHER_FOLDERS: [&str; 4] = ["dist", "node_modules", "target", "tests"];

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
    /// True if a project in Python or JavaScript without WIT of its own sends HTTP requests.
    pub http: bool,
    /// True if a project in Python without WIT of its own has hooks of an operator, and no tools.
    pub hook: bool,
    /// The features of the runtime of JavaScript that the component does without.
    pub disable: Vec<String>,
    /// The grants and limits that the tool asks for. In `tool.toml`, they are in `[wants]`.
    #[serde(deserialize_with = "read_wishes")]
    pub wants: Wishes,
}

fn read_wishes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Wishes, D::Error> {
    Wishes::new(serde_json::Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

/// Errors of opening a project.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectError {
    /// There is no such folder.
    #[error("there is no folder {}; name that of a project, or create one with `fumehood new NAME`", .0.display())]
    NoFolder(PathBuf),
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
    /// The component was not built yet.
    #[error("no such file {}; build it with `fumehood build`", .0.display())]
    NotBuilt(PathBuf),
    /// A source changed after the component was built.
    #[error(
        "{} is older than {}, so it may lack your changes; run `fumehood build`, or name the file to use it as it is",
        component.display(),
        changed.display()
    )]
    Outdated {
        /// The component.
        component: PathBuf,
        /// The source that changed last.
        changed: PathBuf,
    },
}

impl ProjectError {
    /// Creates the error of a manifest that cannot be read.
    fn read(path: PathBuf, source: std::io::Error) -> Self {
        if source.kind() == ErrorKind::InvalidData {
            let reason = "it is not in UTF-8; save it in that encoding".to_owned();
            return Self::Malformed { path, reason };
        }
        Self::Read { path, source }
    }
}

fn manifests() -> String {
    LANGUAGES.map(Language::manifest).join(", ")
}

impl Project {
    /// Opens the project in a folder.
    ///
    /// # Errors
    /// If there is no manifest, or it is not valid.
    pub fn open(folder: &Path) -> Result<Self, ProjectError> {
        let mut found = Vec::new();
        for language in LANGUAGES {
            let path = folder.join(language.manifest());
            match fs::read_to_string(&path) {
                Ok(text) => found.push((language, path, text)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(source) => return Err(ProjectError::read(path, source)),
            }
        }
        // A tool may have the manifest of another language beside its own, for instance of a tool for its pages.
        let own = found.iter().position(|(language, _, text)| *language == Language::C || text.contains("fumehood"));
        match found.get(own.unwrap_or_default()) {
            // Some editors write a byte order mark, which is part of no format here.
            Some((language, path, text)) => Self::parse(folder, *language, path, text.trim_start_matches('\u{feff}')),
            None if folder.is_dir() => Err(ProjectError::Missing(folder.to_owned())),
            None => Err(ProjectError::NoFolder(folder.to_owned())),
        }
    }

    fn parse(folder: &Path, language: Language, path: &Path, text: &str) -> Result<Self, ProjectError> {
        let malformed = |reason: String| ProjectError::Malformed { path: path.to_owned(), reason };
        let (name, about, settings) = match language {
            Language::Rust => CargoManifest::read(text).map_err(malformed)?,
            Language::Python => PythonManifest::read(text).map_err(malformed)?,
            Language::Javascript | Language::Typescript => NodeManifest::read(text).map_err(malformed)?,
            Language::C => ToolManifest::read(text).map_err(malformed)?,
        };
        let is_typescript = language == Language::Javascript
            && settings.module.as_deref().is_some_and(|module| module.ends_with(".ts") || module.ends_with(".mts"));
        let language = if is_typescript { Language::Typescript } else { language };
        let name = component_name(&name);
        fumehood::Namespace::parse(&name).map_err(|error| malformed(error.to_string()))?;
        Ok(Self { folder: folder.to_owned(), name, language, about, settings })
    }

    /// Returns the file that the built component is written to.
    #[must_use]
    pub fn component(&self) -> PathBuf {
        self.join(Path::new("dist")).join(format!("{}.wasm", self.name))
    }

    /// Returns the file of the component, if it was built from the sources as they are.
    ///
    /// # Errors
    /// If it does not exist, or is older than a source. Then the last build failed, or the source changed since.
    pub fn built_component(&self) -> Result<PathBuf, ProjectError> {
        let component = self.component();
        let built = fs::metadata(&component).ok().filter(fs::Metadata::is_file);
        let built = built.ok_or_else(|| ProjectError::NotBuilt(component.clone()))?.modified().ok();
        match self.newest_source() {
            Some((time, changed)) if built.is_some_and(|built| built < time) => {
                Err(ProjectError::Outdated { component, changed })
            }
            _ => Ok(component),
        }
    }

    /// Returns the source that changed last, and when; `None` for a component that another program builds.
    fn newest_source(&self) -> Option<(SystemTime, PathBuf)> {
        if self.is_built_elsewhere() {
            return None;
        }
        self.sources().into_iter().max()
    }

    /// Returns whether another program builds the component.
    fn is_built_elsewhere(&self) -> bool {
        self.language == Language::C && self.settings.sources.is_empty()
    }

    /// Returns the files that can change the component, each with the time of its last change: the manifest, the sources and
    /// the WIT. Virtual environments, hidden folders and the folders of packages and results are left out.
    #[must_use]
    pub fn sources(&self) -> Vec<(SystemTime, PathBuf)> {
        let mut sources = Vec::new();
        let mut folders = vec![self.folder.clone(), self.wit()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let name = entry.file_name();
                let name = name.to_string_lossy();
                // Links are not followed.
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_file() && self.is_source(&name) {
                    let path = path.strip_prefix(".").map(Path::to_owned).unwrap_or(path);
                    sources.extend(metadata.modified().ok().map(|time| (time, path)));
                } else if metadata.is_dir() && !name.starts_with('.') {
                    let is_other = folder == self.folder && OTHER_FOLDERS.contains(&&*name);
                    folders.extend((!is_other && !path.join("pyvenv.cfg").exists()).then_some(path));
                }
            }
        }
        sources
    }

    /// Returns whether a file of this name can change the component.
    fn is_source(&self, name: &str) -> bool {
        let is_manifest = name == self.language.manifest();
        let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
        is_manifest || extension.is_some_and(|it| it == "wit" || self.language.source_extensions().contains(&it))
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
    pub(crate) fn join(&self, part: &Path) -> PathBuf {
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
    package: Option<CargoPackage>,
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
        let package = package.ok_or("missing [package]; name the folder of a package with `--project FOLDER`")?;
        Ok((package.name, About::default(), package.metadata.fumehood))
    }
}

#[derive(Deserialize)]
struct PythonManifest {
    project: Option<PythonProject>,
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

impl PythonProject {
    fn find_url(&self, wanted: &[&str]) -> Option<String> {
        let mut urls = self.urls.iter();
        let found = urls.find(|(name, _)| wanted.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)));
        found.map(|(_, url)| url.clone())
    }
}

#[derive(Deserialize)]
struct PythonAuthor {
    name: Option<String>,
    email: Option<String>,
}

impl PythonManifest {
    fn read(text: &str) -> Result<Parts, String> {
        let Self { project, tool } = read_toml(text)?;
        let project = project.ok_or("missing [project]; add it with the `name` of the tool, such as \"city-facts\"")?;
        let about = About {
            repository: project.find_url(&["repository", "source"]),
            homepage: project.find_url(&["homepage"]),
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
    #[serde(default, deserialize_with = "read_wishes")]
    wants: Wishes,
}

impl ToolManifest {
    fn read(text: &str) -> Result<Parts, String> {
        let Self { name, version, description, license, repository, homepage, authors, build, wants } =
            read_toml(text)?;
        if !build.wants.is_empty() {
            return Err("`wants` is not a key of [build]; name the section [wants]".to_owned());
        }
        let about = About { version, description, license, repository, homepage, authors };
        Ok((name, about, Settings { wants, ..build }))
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
    fn a_component_that_is_older_than_a_source_is_refused() {
        fn put(folder: &Path, name: &str, seconds: u64) {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "[project]\nname = 'a'").unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            fs::File::open(&path).unwrap().set_modified(time).unwrap();
        }

        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "pyproject.toml", 1);
        let project = Project::open(folder.path()).unwrap();
        assert!(matches!(project.built_component(), Err(ProjectError::NotBuilt(_))));
        put(folder.path(), "dist/a.wasm", 5);
        put(folder.path(), "app.py", 5);
        for other in ["README.md", "tests/test_app.py", "dist/a.py", ".venv/a.py", "env/pyvenv.cfg", "env/lib/a.py"] {
            put(folder.path(), other, 9);
        }
        assert_eq!(project.built_component().unwrap(), folder.path().join("dist/a.wasm"));
        for source in ["app.py", "helpers/a.py", "helpers/tests/a.py", "wit/deps/a.wit", "pyproject.toml"] {
            put(folder.path(), source, 9);
            let error = project.built_component().unwrap_err().to_string();
            assert!(
                error.contains(&format!("dist/a.wasm is older than {}/{source}", folder.path().display())),
                "{error}"
            );
            put(folder.path(), source, 4);
        }
        // Another program builds this component.
        fs::remove_file(folder.path().join("pyproject.toml")).unwrap();
        fs::write(folder.path().join("tool.toml"), "name = 'a'").unwrap();
        assert!(Project::open(folder.path()).unwrap().built_component().is_ok());
    }

    #[test]
    fn chooses_the_manifest_of_the_tool() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        put("package.json", "\u{feff}{\"name\": \"pages\"}");
        assert_eq!(Project::open(folder.path()).unwrap().language, Language::Javascript);
        put("pyproject.toml", "\u{feff}[project]\r\nname = 'a'\r\n[tool.fumehood]\r\nmodule = 'app'\r\n");
        put("Cargo.toml", "[package]\nname = 'native'\n");
        assert_eq!(Project::open(folder.path()).unwrap().language, Language::Python);
    }

    #[test]
    fn rejects_manifests_in_words() {
        fn check(name: &str, text: &str, expected: &str) {
            let error = open(name, text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }

        check(
            "README.md",
            "",
            "it has none of Cargo.toml, pyproject.toml, package.json, tool.toml; create a project with `fumehood new NAME`",
        );
        check("Cargo.toml", "[workspace]", "missing [package]");
        check("pyproject.toml", "[tool.fumehood]", "missing [project]; add it with the `name`");
        check("package.json", "{", "EOF while parsing");
        check("tool.toml", "name = 'a'\ncolour = 1", "unknown field `colour`");
        check("tool.toml", "name = 'a b'", "contains ' '");
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("package.json"), b"{\"name\": \"K\xf6ln\"}").unwrap();
        let error = Project::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("package.json: it is not in UTF-8; save it in that encoding"), "{error}");
        check("tool.toml", "name = 'a'\n[build]\nsource = []", "unknown field `source`");
    }

    #[test]
    fn reads_the_wishes_of_each_manifest() {
        fn check(name: &str, text: &str) {
            let wants = open(name, text).unwrap().settings.wants;
            assert_eq!(wants.to_string(), "http: GET https://a.example/** — to read", "{name}");
        }

        let http = "http = [{ rule = 'GET https://a.example/**', reason = 'to read' }]";
        check("Cargo.toml", &format!("[package]\nname = 'a'\n[package.metadata.fumehood.wants]\n{http}"));
        check("pyproject.toml", &format!("[project]\nname = 'a'\n[tool.fumehood.wants]\n{http}"));
        check("tool.toml", &format!("name = 'a'\n[wants]\n{http}"));
        let http = r#"{"http": [{"rule": "GET https://a.example/**", "reason": "to read"}]}"#;
        check("package.json", &format!(r#"{{"name": "a", "fumehood": {{"wants": {http}}}}}"#));
    }

    #[test]
    fn rejects_wishes_without_a_meaning() {
        fn check(name: &str, text: &str, expected: &str) {
            let error = open(name, text).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(expected), "{error}");
        }

        let python = "[project]\nname = 'a'\n[tool.fumehood.wants]\n";
        let misspelt = format!("{python}htpp = []");
        check("pyproject.toml", &misspelt, "unknown key `htpp` in [wants]; did you mean `http`?");
        check("pyproject.toml", &format!("{python}http = ['GTE https://a.example/']"), "did you mean `GET`?");
        check(
            "pyproject.toml",
            &format!("{python}scratch = true"),
            "`wants.scratch` is true or false; expected a table",
        );
        check("pyproject.toml", "[project]\nname = 'a'\n[tool.fumehood]\nwants = 1", "wants");
        check("tool.toml", "name = 'a'\n[build.wants]\nenv = ['A']", "name the section [wants]");
        let json = r#"{"name": "a", "fumehood": {"wants": {"key_value": "lots"}}}"#;
        check("package.json", json, "invalid size `lots`");
    }
}
