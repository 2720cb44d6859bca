//! Builds of components: the toolchain of the project's language, and then what every component gets.
//!
//! A component has its memory up front, so that most calls never grow it; the doc comments of its WIT, if it exports
//! plain functions; a name, a version, a licence and a source revision; the wishes of its author; and, in Rust, the list
//! of crates that it was built from, in the format of cargo-auditable.

mod c;
mod development;
mod error;
mod javascript;
pub(crate) use javascript::ESBUILD;
mod javascript_sdk;
mod metadata;
mod python;
mod python_sdk;
pub(crate) use python::COMPONENTIZE_PY;
mod rust;
mod sbom;
mod syntax;
mod target_folder;
mod toolchain;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fumehood_platform::private;
use sha2::{Digest as _, Sha256};

pub use development::{
    DevelopmentBuild, PROGRAM_ERROR, PROGRAM_FILE, PROGRAM_FOLDER, build_for_development, has_interpreter,
};
pub use error::BuildError;
pub use metadata::{Labels, finish};
pub use rust::{CargoBuild, encode};
pub use sbom::Dependencies;
pub use syntax::check_syntax;
pub use toolchain::{RUSTC_VARIABLE, RustTarget, Toolchain};

use crate::language::Language;
use crate::project::Project;

/// A component that was built.
#[derive(Debug, Clone)]
pub struct BuildOutput {
    /// The component.
    pub component: Vec<u8>,
    /// Its metadata.
    pub labels: Labels,
    /// The number of crates in its list of dependencies; `None` if it has no list.
    pub dependencies: Option<usize>,
    /// Remarks for the author about something that is missing.
    pub notes: Vec<String>,
    /// When the build began. A source that changed later is not in the component.
    began: SystemTime,
}

/// A component before its metadata are added.
struct CompilerOutput {
    component: Vec<u8>,
    labels: Labels,
    dependencies: Option<Dependencies>,
    /// Messages of a compiler that is silent while it works.
    messages: String,
}

/// The folders of intermediate files of a build.
#[derive(Debug, Clone, Copy)]
struct Workspace<'a> {
    /// The folder that projects share.
    shared: Option<&'a Path>,
    /// An empty folder, in which the component is compiled from nothing.
    fresh: Option<&'a Path>,
    /// True if a fast build matters more than a fast component.
    is_draft: bool,
}

impl BuildOutput {
    /// Returns the SHA-256 digest of the component, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> String {
        digest(&self.component)
    }

    /// Writes the component to a file, in one step. Its time is the beginning of the build, so that a source that changed
    /// meanwhile is newer.
    ///
    /// # Errors
    /// If the file or its folder cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), BuildError> {
        let failed = |source| BuildError::Io { action: "write", path: path.to_owned(), source };
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(failed)?;
        let mut file = tempfile::Builder::new().prefix(".building-").tempfile_in(folder).map_err(failed)?;
        file.write_all(&self.component).map_err(failed)?;
        set_default_permissions(file.as_file()).map_err(failed)?;
        file.as_file().set_modified(self.began).map_err(failed)?;
        file.persist(path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

/// Makes a temporary file, which only its owner may read, as readable as any other of the project.
fn set_default_permissions(file: &fs::File) -> std::io::Result<()> {
    file.set_permissions(private::readable_permissions())
}

/// Builds the component of a project. The compilers of Rust and C report their progress on stderr.
///
/// A project in Rust is compiled in a folder of `shared`, together with others that need the same crates, unless cargo's
/// settings name a folder. Without `shared` it is compiled in its own.
///
/// # Errors
/// If a tool is missing or fails, or the result is not a component.
pub fn build(project: &Project, shared: Option<&Path>) -> Result<BuildOutput, BuildError> {
    build_in(project, Workspace { shared, fresh: None, is_draft: false })
}

/// Like [`build`], for a component that nobody else gets: in Rust without link-time optimization, and incrementally.
///
/// # Errors
/// Those of [`build`].
pub fn build_draft(project: &Project, shared: Option<&Path>) -> Result<BuildOutput, BuildError> {
    build_in(project, Workspace { shared, fresh: None, is_draft: true })
}

/// Builds the component of a project, compiles it once more from nothing, and compares the results.
///
/// # Errors
/// Those of [`build`], [`BuildError::Irreproducible`] if the results differ, and [`BuildError::RandomRuntime`] if they
/// always do.
pub fn build_reproducibly(project: &Project, shared: Option<&Path>) -> Result<BuildOutput, BuildError> {
    if matches!(project.language, Language::Python | Language::Javascript | Language::Typescript) {
        return Err(BuildError::RandomRuntime(project.language));
    }
    let folder = scratch()?;
    let first = build(project, shared)?;
    let second = build_in(project, Workspace { shared, fresh: Some(folder.path()), is_draft: false })?;
    match first_difference(&first.component, &second.component) {
        None => Ok(second),
        Some(offset) => Err(BuildError::Irreproducible { first: first.digest(), second: second.digest(), offset }),
    }
}

/// Checks that the manifest has the settings that a build needs, and that the files which it names exist.
///
/// # Errors
/// The first setting or file that is missing.
pub fn check_settings(project: &Project) -> Result<(), BuildError> {
    let settings = &project.settings;
    let manifest = || project.join(Path::new(project.language.manifest()));
    let wrong = |reason: String| Err(BuildError::setting(manifest(), reason));
    let module = settings.module.as_deref();
    match project.language {
        Language::Rust => Ok(()),
        Language::Python => {
            let Some(module) = module else {
                return wrong("[tool.fumehood] has no `module`; name the file without .py".to_owned());
            };
            let path = project.folder.join(module.replace('.', "/"));
            if path.is_dir() || path.with_extension("py").is_file() {
                return Ok(());
            }
            wrong(format!(
                "`module` is `{module}`, and there is no file {module}.py; correct the name, or add the file"
            ))
        }
        Language::Javascript | Language::Typescript => match module {
            None => wrong("`fumehood` has no `module`; name the file, such as \"tool.js\"".to_owned()),
            Some(module) if project.folder.join(module).is_file() => Ok(()),
            Some(module) => {
                wrong(format!("`module` is `{module}`, and there is no such file; correct the name, or add the file"))
            }
        },
        Language::C => {
            if settings.world.is_none() {
                return wrong("[build] has no `world`; name the WIT world".to_owned());
            }
            if settings.sources.is_empty() {
                return wrong("[build] has no `sources`; list the files, such as [\"src/tool.c\"]".to_owned());
            }
            if let Some(missing) = settings.sources.iter().find(|source| !project.folder.join(source).is_file()) {
                let missing = missing.display();
                return wrong(format!(
                    "`sources` names {missing}, which does not exist; correct the name, or add the file"
                ));
            }
            let wit = project.wit();
            if wit.exists() {
                return Ok(());
            }
            let wit = wit.display();
            wrong(format!("there is no {wit} with the WIT of the tool; add it, or name another folder in `wit`"))
        }
    }
}

/// Writes a file of an SDK. An unchanged one keeps its time, which caches of languages compare.
fn write_file(path: &Path, text: &str) -> Result<(), BuildError> {
    let failed = |source| BuildError::io("write", path, source);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    if fs::read_to_string(path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(failed)
}

/// Creates a folder for the files of one build.
fn scratch() -> Result<tempfile::TempDir, BuildError> {
    tempfile::tempdir().map_err(|source| BuildError::Io { action: "create", path: std::env::temp_dir(), source })
}

fn build_in(project: &Project, workspace: Workspace<'_>) -> Result<BuildOutput, BuildError> {
    let began = SystemTime::now();
    check_settings(project)?;
    let compiled = match project.language {
        Language::Rust => rust::compile(project, workspace)?,
        Language::Python => python::compile(project)?,
        Language::Javascript | Language::Typescript => javascript::compile(project)?,
        Language::C => c::compile(project)?,
    };
    let CompilerOutput { component, mut labels, dependencies, messages } = compiled;
    let mut notes = Vec::new();
    if !messages.is_empty() {
        notes.push(format!("the compiler wrote: {messages}"));
    }
    labels.revision = metadata::revision(&project.folder, &mut notes);
    if labels.license.is_none() {
        notes.push(
            "the manifest has no licence, so others may not use the component; add one, such as \"MIT\"".to_owned(),
        );
    }
    let wit = plain_wit(project, &mut notes)?;
    let mut finished = finish(component, &labels, wit.as_deref(), dependencies.as_ref())?;
    metadata::embed_wishes(&mut finished, &project.settings.wants)?;
    if let Some(trace) = find_build_path(&finished, &project.folder) {
        notes.push(format!("the component contains the path {trace}, which reveals details of this machine"));
    }
    let dependencies = dependencies.as_ref().map(Dependencies::len);
    Ok(BuildOutput { component: finished, labels, dependencies, notes, began })
}

/// Returns the WIT of a project whose component exports plain functions, so that its doc comments are embedded.
fn plain_wit(project: &Project, notes: &mut Vec<String>) -> Result<Option<PathBuf>, BuildError> {
    let wit = project.wit();
    if !wit.exists() {
        return Ok(None);
    }
    let mut resolve = wit_parser::Resolve::default();
    let (package, _) = resolve.push_path(&wit).map_err(|error| BuildError::wit(&wit, &error))?;
    let name = resolve.packages.get(package).map(|package| &package.name);
    if name.is_some_and(|name| name.namespace == "fumehood" && name.name == "tool") {
        return Ok(None);
    }
    match fumehood::WitDocs::read(&wit) {
        Ok(_) => Ok(Some(wit)),
        Err(error @ fumehood::WitDocsError::Empty(_)) => {
            notes.push(error.to_string());
            Ok(None)
        }
        Err(error) => Err(BuildError::Docs(error)),
    }
}

/// Finds the path of the project in its component.
fn find_build_path(component: &[u8], folder: &Path) -> Option<String> {
    let path = folder.canonicalize().ok()?.to_str()?.to_owned();
    component.windows(path.len()).any(|window| window == path.as_bytes()).then_some(path)
}

/// Returns the SHA-256 digest of a component, in hexadecimal.
fn digest(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Returns a digest of the texts that an interpreter is built from.
fn interpreter_key<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    let digest = format!("{:x}", hash.finalize());
    digest.get(..32).unwrap_or(&digest).to_owned()
}

/// Returns the offset of the first byte that differs.
fn first_difference(first: &[u8], second: &[u8]) -> Option<usize> {
    let common = first.iter().zip(second).position(|(a, b)| a != b);
    common.or_else(|| (first.len() != second.len()).then(|| first.len().min(second.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_first_difference() {
        assert_eq!(first_difference(b"abc", b"abc"), None);
        assert_eq!(first_difference(b"abc", b"abd"), Some(2));
        assert_eq!(first_difference(b"abc", b"ab"), Some(2));
    }

    #[test]
    fn finds_the_path_of_the_project() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().display().to_string();
        assert_eq!(find_build_path(b"panicked at src/lib.rs", folder.path()), None);
        assert_eq!(find_build_path(format!("panicked at {path}/src/lib.rs").as_bytes(), folder.path()), Some(path));
    }
}
