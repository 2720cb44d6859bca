//! New projects: the files of a tool, or of a service that embeds tools.

mod template;
mod template_folder;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::language::{Dialect, Language};
use fumehood_platform::private;

/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Names that are words of Rust or WIT, or crates of Rust itself.
const RESERVED: [&str; 48] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "bool",
    "box",
    "break",
    "char",
    "const",
    "constructor",
    "core",
    "crate",
    "do",
    "dyn",
    "enum",
    "export",
    "final",
    "flags",
    "fn",
    "for",
    "from",
    "func",
    "future",
    "if",
    "impl",
    "import",
    "in",
    "include",
    "interface",
    "let",
    "list",
    "loop",
    "macro",
    "match",
    "option",
    "own",
    "package",
    "record",
    "resource",
    "result",
    "self",
    "std",
    "string",
    "test",
    "use",
    "world",
];

/// A new project.
#[derive(Debug, Clone)]
pub struct Scaffold {
    name: String,
    kind: Kind,
    sdk: Option<PathBuf>,
}

/// The kind of a new project.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// A component with tools.
    Tool(Language, Dialect),
    /// A component with hooks of an operator.
    Hook(Language),
    /// These files.
    Folder(Vec<(PathBuf, Vec<u8>)>),
    /// A service in Rust that embeds an agent with tools.
    Agent,
}

/// Errors of creating a project. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScaffoldError {
    /// The name cannot be used for a project.
    #[error(
        "invalid project name `{found}`: {reason}; expected up to {MAX_NAME_BYTES} of `a-z`, `0-9` and `-`, with a \
         letter at the start of each word, such as `city-facts`"
    )]
    Name {
        /// The name, shortened.
        found: String,
        /// The reason.
        reason: &'static str,
    },
    /// The language has no template for the dialect.
    #[error("{language} does not support the interface {dialect}, because {reason}; leave `--dialect` out")]
    Dialect {
        /// The language.
        language: Language,
        /// The dialect.
        dialect: Dialect,
        /// The reason.
        reason: &'static str,
    },
    /// The language has no SDK for hooks.
    #[error("a hook cannot be written in {0}; choose `--lang rust` or `--lang python`")]
    Hook(Language),
    /// The folder of a template cannot be used.
    #[error("cannot use {} as a template: {reason}", path.display())]
    Template {
        /// The folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The folder exists, and is not empty.
    #[error(
        "{} already exists; choose another name, remove it, or replace the files of a new project in it with `--force`",
        .0.display()
    )]
    Exists(PathBuf),
    /// The folder of the SDK is not a checkout of it.
    #[error("{} has no {missing}; expected the folder of a checkout of Fumehood", path.display())]
    Sdk {
        /// The folder.
        path: PathBuf,
        /// The file that is missing.
        missing: &'static str,
    },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl Scaffold {
    /// Creates a project of a tool. Without a dialect it is the contract, and plain functions in C.
    ///
    /// # Errors
    /// If the name is not valid, or there is no such project.
    pub fn tool(name: &str, language: Language, dialect: Option<Dialect>) -> Result<Self, ScaffoldError> {
        let default = if language == Language::C { Dialect::Typed } else { Dialect::Contract };
        let dialect = dialect.unwrap_or(default);
        let reason = match (language, dialect) {
            (Language::C, Dialect::Contract) => Some("its library has no JSON"),
            (Language::Typescript, Dialect::Typed) => Some("its types are those of the SDK"),
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(ScaffoldError::Dialect { language, dialect, reason });
        }
        Self::new(name, Kind::Tool(language, dialect))
    }

    /// Creates a project of a hook, in Rust or Python.
    ///
    /// # Errors
    /// If the name is not valid, or the language has no SDK for hooks.
    pub fn hook(name: &str, language: Language) -> Result<Self, ScaffoldError> {
        match language {
            Language::Rust | Language::Python => Self::new(name, Kind::Hook(language)),
            Language::Javascript | Language::Typescript | Language::C => Err(ScaffoldError::Hook(language)),
        }
    }

    /// Creates a project of the files in a folder. The name of the project replaces `{{name}}` in them and in their paths,
    /// and `{{identifier}}`, with `_` in place of `-`.
    ///
    /// # Errors
    /// If the name is not valid, or the folder cannot be read, is empty or too large.
    pub fn folder(name: &str, template: &Path) -> Result<Self, ScaffoldError> {
        check_name(name)?;
        Self::new(name, Kind::Folder(template_folder::read(template, name)?))
    }

    /// Creates a project of a service with an agent, a channel, a policy and a tool.
    ///
    /// # Errors
    /// If the name is not valid.
    pub fn agent(name: &str) -> Result<Self, ScaffoldError> {
        Self::new(name, Kind::Agent)
    }

    fn new(name: &str, kind: Kind) -> Result<Self, ScaffoldError> {
        check_name(name)?;
        Ok(Self { name: name.to_owned(), kind, sdk: None })
    }

    /// Takes the SDK from a checkout, in place of the version that is published.
    ///
    /// # Errors
    /// If the folder is not a checkout of Fumehood.
    pub fn sdk(mut self, checkout: &Path) -> Result<Self, ScaffoldError> {
        let missing = ["guest-sdk/Cargo.toml", "host/fumehood/Cargo.toml"];
        if let Some(missing) = missing.into_iter().find(|file| !checkout.join(file).is_file()) {
            return Err(ScaffoldError::Sdk { path: checkout.to_owned(), missing });
        }
        let write = |source| ScaffoldError::Write { path: checkout.to_owned(), source };
        self.sdk = Some(checkout.canonicalize().map_err(write)?);
        Ok(self)
    }

    /// Returns the command that installs the compiler of the project once, in its folder. `None` if there is nothing to
    /// install, or it takes more than one command.
    #[must_use]
    pub fn setup_command(&self) -> Option<String> {
        match self.kind {
            Kind::Tool(language, _) | Kind::Hook(language) => template::setup_command(language),
            Kind::Agent | Kind::Folder(_) => None,
        }
    }

    /// Returns the files of the project: paths within its folder, and contents.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let texts = template::files(&self.name, &self.kind, self.sdk.as_deref());
        match &self.kind {
            Kind::Folder(files) => files.clone(),
            _ => texts.into_iter().map(|(path, text)| (path, text.into_bytes())).collect(),
        }
    }

    /// Writes the files of the project into a folder that may have others. Files of the same names are replaced, each as a whole.
    ///
    /// # Errors
    /// If a file cannot be written. Those before it are written then.
    pub fn overwrite(&self, folder: &Path) -> Result<Vec<PathBuf>, ScaffoldError> {
        let files = self.files();
        for (name, contents) in &files {
            let path = folder.join(name);
            let inner = path.parent().unwrap_or(folder);
            fs::create_dir_all(inner).map_err(|source| write_error(inner, source))?;
            let mut file = tempfile::Builder::new()
                .prefix(".new-")
                .permissions(private::readable_permissions())
                .tempfile_in(inner)
                .map_err(|source| write_error(&path, source))?;
            file.write_all(contents).map_err(|source| write_error(&path, source))?;
            file.persist(&path).map_err(|error| write_error(&path, error.error))?;
        }
        Ok(files.into_iter().map(|(name, _)| name).collect())
    }

    /// Writes the project to a folder, which must not exist or be empty. It appears as a whole, or not at all.
    ///
    /// # Errors
    /// If the folder has anything in it, or cannot be written.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ScaffoldError> {
        if folder.symlink_metadata().is_ok() && !is_empty_folder(folder) {
            return Err(ScaffoldError::Exists(folder.to_owned()));
        }
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(|source| write_error(parent, source))?;
        let unfinished = tempfile::Builder::new()
            .prefix(".new-")
            .tempdir_in(parent)
            .map_err(|source| write_error(parent, source))?;
        let files = self.files();
        for (name, contents) in &files {
            let path = unfinished.path().join(name);
            let inner = path.parent().unwrap_or(unfinished.path());
            fs::create_dir_all(inner).map_err(|source| write_error(inner, source))?;
            let mut file = fs::File::create_new(&path).map_err(|source| write_error(&path, source))?;
            file.write_all(contents).map_err(|source| write_error(&path, source))?;
        }
        open_to_others(unfinished.path()).map_err(|source| write_error(folder, source))?;
        // Replaces an empty folder, and fails if something was put into it meanwhile.
        fs::rename(unfinished.path(), folder).map_err(|source| write_error(folder, source))?;
        let _moved = unfinished.keep();
        Ok(files.into_iter().map(|(name, _)| name).collect())
    }
}

fn write_error(path: &Path, source: std::io::Error) -> ScaffoldError {
    ScaffoldError::Write { path: path.to_owned(), source }
}

fn is_empty_folder(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Makes the temporary folder, which only its owner may read, as readable as any other.
fn open_to_others(folder: &Path) -> std::io::Result<()> {
    fs::set_permissions(folder, private::readable_folder_permissions())
}

fn check_name(name: &str) -> Result<(), ScaffoldError> {
    let is_word = |word: &str| {
        let mut characters = word.chars();
        characters.next().is_some_and(|first| first.is_ascii_lowercase())
            && characters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    let reason = match name {
        "" => "it is empty",
        _ if name.len() > MAX_NAME_BYTES => "it is too long",
        _ if !name.split('-').all(is_word) => "it contains other characters, or a word that starts with a digit",
        _ if RESERVED.contains(&name) => "it is a keyword of Rust or WIT",
        _ => return Ok(()),
    };
    Err(ScaffoldError::Name {
        found: name.chars().take(MAX_NAME_BYTES).collect::<String>().escape_debug().to_string(),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Project;

    #[test]
    fn every_tool_is_a_complete_project() {
        for language in Language::ALL {
            for dialect in Dialect::ALL {
                let Ok(scaffold) = Scaffold::tool("city-facts", language, Some(dialect)) else {
                    let missing = [(Language::C, Dialect::Contract), (Language::Typescript, Dialect::Typed)];
                    assert!(missing.contains(&(language, dialect)));
                    continue;
                };
                let parent = tempfile::tempdir().unwrap();
                let folder = parent.path().join("city-facts");
                let written = scaffold.write(&folder).unwrap();
                for name in
                    ["README.md", "LICENSE", ".gitignore", "AGENTS.md", ".github/workflows/ci.yml", "tests/greet.toml"]
                {
                    assert!(written.contains(&PathBuf::from(name)), "{language} {dialect}: {name}");
                }
                for name in &written {
                    let text = fs::read_to_string(folder.join(name)).unwrap();
                    let is_python = name.extension().is_some_and(|extension| extension == "py");
                    assert!(!text.contains("{{") || !text.contains("}}"), "{language} {dialect} {name:?}: {text}");
                    assert!(
                        text.ends_with('\n') && (is_python || !text.contains("\n\n\n")),
                        "{language} {dialect} {name:?}: {text:?}"
                    );
                }
                let project = Project::open(&folder).unwrap();
                assert_eq!((project.name.as_str(), project.language), ("city-facts", language));
                let wit = project.wit();
                // The SDKs have the contract.
                assert_eq!(wit.is_dir(), dialect == Dialect::Typed);
                if wit.is_dir() {
                    wit_parser::Resolve::default().push_path(&wit).unwrap();
                }
            }
        }
    }

    #[test]
    fn hooks_and_templates_are_projects() {
        let parent = tempfile::tempdir().unwrap();
        for language in [Language::Rust, Language::Python] {
            let folder = parent.path().join(language.as_str());
            Scaffold::hook("careful", language).unwrap().write(&folder).unwrap();
            let project = Project::open(&folder).unwrap();
            assert_eq!((project.name.as_str(), project.language), ("careful", language));
            assert_eq!(project.settings.hook, language == Language::Python);
            assert!(!fs::read_to_string(folder.join("README.md")).unwrap().contains("{{"));
        }
        let error = Scaffold::hook("careful", Language::C).unwrap_err().to_string();
        assert_eq!(error, "a hook cannot be written in c; choose `--lang rust` or `--lang python`");
        let template = parent.path().join("template");
        fs::create_dir(&template).unwrap();
        fs::write(template.join("pyproject.toml"), "[project]\nname = \"{{name}}\"\n").unwrap();
        let folder = parent.path().join("own");
        Scaffold::folder("own-tool", &template).unwrap().write(&folder).unwrap();
        assert_eq!(Project::open(&folder).unwrap().name, "own-tool");
    }

    #[test]
    fn installs_the_command_of_this_version() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let package = fs::read_to_string(root.join("release/python/pyproject.toml")).unwrap();
        assert!(package.contains("name = \"fumehood-cli\""), "{package}");
        let files = Scaffold::tool("a", Language::C, None).unwrap().files();
        let (_, workflow) = files.iter().find(|(name, _)| name.ends_with("ci.yml")).unwrap();
        let workflow = std::str::from_utf8(workflow).unwrap();
        let install = concat!("- run: pip install fumehood-cli==", env!("CARGO_PKG_VERSION"), "\n");
        assert!(workflow.contains(install), "{workflow}");
    }

    #[test]
    fn nothing_is_overwritten() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("a");
        let scaffold = Scaffold::tool("a", Language::Rust, None).unwrap();
        fs::create_dir(&folder).unwrap();
        scaffold.write(&folder).unwrap();
        let before = fs::read(folder.join("Cargo.toml")).unwrap();
        let error = Scaffold::tool("a", Language::Python, None).unwrap().write(&folder).unwrap_err();
        assert!(matches!(error, ScaffoldError::Exists(_)), "{error}");
        assert_eq!(fs::read(folder.join("Cargo.toml")).unwrap(), before);
        assert!(!folder.join("pyproject.toml").exists());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "nothing is left beside it");
        fs::write(folder.join("Cargo.toml"), "stale").unwrap();
        fs::write(folder.join("mine.txt"), "mine").unwrap();
        scaffold.overwrite(&folder).unwrap();
        assert_eq!(fs::read(folder.join("Cargo.toml")).unwrap(), before);
        assert_eq!(fs::read_to_string(folder.join("mine.txt")).unwrap(), "mine");

        let file = parent.path().join("b");
        fs::write(&file, "mine").unwrap();
        assert!(matches!(scaffold.write(&file), Err(ScaffoldError::Exists(_))));
    }

    #[test]
    fn rejects_names_that_a_language_would_reject() {
        for name in [
            "",
            "A",
            "a_b",
            "a--b",
            "-a",
            "a-",
            "1a",
            "a-1",
            "a b",
            "../a",
            "a/b",
            "test",
            "world",
            "ä",
            &"a".repeat(65),
        ] {
            let error = Scaffold::tool(name, Language::Rust, None).unwrap_err().to_string();
            assert!(error.contains("such as `city-facts`"), "{name}: {error}");
        }
        for name in ["a", "city-facts", "a1-b2", &"a".repeat(64)] {
            assert!(Scaffold::agent(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn sdk_is_a_version_or_a_checkout() {
        fn manifest(scaffold: &Scaffold) -> String {
            let files = scaffold.files();
            String::from_utf8(files.into_iter().find(|(name, _)| name == Path::new("Cargo.toml")).unwrap().1).unwrap()
        }

        let scaffold = Scaffold::tool("a", Language::Rust, None).unwrap();
        assert!(manifest(&scaffold).contains(concat!("fumehood-guest = \"", env!("CARGO_PKG_VERSION"), "\"")));
        assert!(matches!(scaffold.clone().sdk(Path::new("/")), Err(ScaffoldError::Sdk { .. })));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let local = manifest(&scaffold.sdk(&root).unwrap());
        let path = root.canonicalize().unwrap().join("guest-sdk");
        assert!(local.contains(&format!("fumehood-guest = {{ path = {:?} }}", path)), "{local}");
        let agent = manifest(&Scaffold::agent("a").unwrap().sdk(&root).unwrap());
        assert!(agent.contains("host/fumehood\" }"), "{agent}");
    }
}
