//! Builds for development: an interpreter that is built once, and the program that it reads from a folder in each call. So an
//! edit does not compile the interpreter again.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use fumehood_platform::private;
use serde::Serialize;

use super::javascript::NodeProject;
use super::{BuildError, python};
use crate::language::Language;
use crate::project::Project;

/// The folder in which an interpreter finds its program, as it sees it.
pub const PROGRAM_FOLDER: &str = "/fumehood/program";
/// The file with the program in that folder.
pub const PROGRAM_FILE: &str = "modules";
/// The name of the only tool of a program that cannot be loaded. Its description is the error.
pub const PROGRAM_ERROR: &str = "program-error";
/// Maximum size of a program, in bytes.
const MAX_PROGRAM_BYTES: usize = 64 << 20;
/// Folders of packages that are tools of Python, and no part of a program.
const TOOLS: [&str; 8] =
    ["__pycache__", "_distutils_hack", "componentize_py", "pip", "pkg_resources", "setuptools", "tests", "wheel"];

/// A component and what it reads.
#[derive(Debug)]
pub struct DevelopmentBuild {
    /// The file of the interpreter.
    pub interpreter: PathBuf,
    /// The content of [`PROGRAM_FILE`].
    pub program: Vec<u8>,
    /// Warnings of a compiler.
    pub messages: String,
}

/// Returns whether there is an interpreter for a project. It has the WIT of tools in the SDK, so a project with WIT of its own,
/// or with hooks, has none.
#[must_use]
pub fn has_interpreter(project: &Project) -> bool {
    let is_interpreted = matches!(project.language, Language::Python | Language::Javascript | Language::Typescript);
    is_interpreted && project.settings.world.is_none() && !project.settings.hook
}

/// Builds a project for an interpreter, and the interpreter if the folder `interpreters` has none yet.
///
/// # Errors
/// If a tool is missing or fails, or a file cannot be read or written.
pub fn build_for_development(project: &Project, interpreters: &Path) -> Result<DevelopmentBuild, BuildError> {
    super::check_settings(project)?;
    if matches!(project.language, Language::Javascript | Language::Typescript) {
        return build_javascript(project, interpreters);
    }
    let compiler = python::require_compiler(project)?;
    let interpreter = interpreters.join(format!("python-{}.wasm", python::interpreter_key(project, &compiler)?));
    if !interpreter.is_file() {
        write_private(&interpreter, &python::build_interpreter(project, &compiler)?)?;
    }
    let mut modules = Modules::default();
    modules.add_folder(&project.folder, &["dist", "node_modules", "target", "tests"])?;
    for packages in python::site_packages(&compiler) {
        modules.add_folder(&packages, &TOOLS)?;
    }
    let module = project.settings.module.clone().unwrap_or_default();
    Ok(DevelopmentBuild { interpreter, program: modules.into_program(module)?, messages: String::new() })
}

fn build_javascript(project: &Project, interpreters: &Path) -> Result<DevelopmentBuild, BuildError> {
    let node = NodeProject::find(project)?;
    // First, because its errors are the author's, and the interpreter takes a while.
    let (program, messages) = node.make_program()?;
    let interpreter = interpreters.join(format!("javascript-{}.wasm", node.interpreter_key()?));
    if !interpreter.is_file() {
        write_private(&interpreter, &node.build_interpreter()?)?;
    }
    Ok(DevelopmentBuild { interpreter, program, messages })
}

/// Writes a file that only this user can read, in one step.
fn write_private(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    let failed = |source| BuildError::io("write", path, source);
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(failed)?;
    let mut file = tempfile::Builder::new().prefix(".building-").tempfile_in(folder).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// The modules of a program, by name.
#[derive(Default)]
struct Modules {
    places: BTreeMap<String, Place>,
    texts: Vec<u8>,
}

/// The place of a module in a program.
#[derive(Serialize)]
struct Place {
    is_package: bool,
    /// The file, for tracebacks.
    file: String,
    offset: usize,
    bytes: usize,
}

/// The first line of a program.
#[derive(Serialize)]
struct Header {
    module: String,
    modules: BTreeMap<String, Place>,
}

impl Modules {
    /// Adds the modules below a folder. Those of earlier folders come first, as in a search path.
    fn add_folder(&mut self, root: &Path, left_out: &[&str]) -> Result<(), BuildError> {
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(root.join(&folder)).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let below = folder.join(&name);
                let Ok(metadata) = fs::metadata(entry.path()) else { continue };
                if metadata.is_file() && name.ends_with(".py") {
                    self.add_module(root, &below)?;
                } else if metadata.is_dir() && !name.starts_with('.') && !left_out.contains(&name.as_str()) {
                    folders.extend((!entry.path().join("pyvenv.cfg").exists()).then_some(below));
                }
            }
        }
        Ok(())
    }

    fn add_module(&mut self, root: &Path, below: &Path) -> Result<(), BuildError> {
        let mut parts: Vec<String> =
            below.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let is_package = parts.last().is_some_and(|last| last == "__init__");
        if is_package {
            parts.pop();
        }
        let path = root.join(below);
        let text = fs::read(&path).map_err(|source| BuildError::io("read", &path, source))?;
        let place =
            Place { is_package, file: format!("/0/{}", below.display()), offset: self.texts.len(), bytes: text.len() };
        // Folders without a module of their own are packages all the same.
        for count in 1..parts.len() {
            let parent: Vec<&str> = parts.iter().take(count).map(String::as_str).collect();
            let file = format!("/0/{}", parent.join("/"));
            let empty = Place { is_package: true, file, offset: 0, bytes: 0 };
            self.places.entry(parent.join(".")).or_insert(empty);
        }
        let name = parts.join(".");
        if self.places.get(&name).is_none_or(|there| there.bytes == 0) {
            self.places.insert(name, place);
            self.texts.extend(text);
        }
        if self.texts.len() > MAX_PROGRAM_BYTES {
            let reason = format!("the modules have more than {} MiB", MAX_PROGRAM_BYTES >> 20);
            return Err(BuildError::Component(reason));
        }
        Ok(())
    }

    fn into_program(self, module: String) -> Result<Vec<u8>, BuildError> {
        let header = serde_json::to_vec(&Header { module, modules: self.places });
        let mut program = header.map_err(|error| BuildError::Component(error.to_string()))?;
        program.push(b'\n');
        program.extend(self.texts);
        Ok(program)
    }
}

impl DevelopmentBuild {
    /// Writes the program into a folder, in one step, for the calls that begin from now on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_program(&self, folder: &Path) -> Result<(), BuildError> {
        write_readable(&folder.join(PROGRAM_FILE), &self.program)
    }

    /// Copies the interpreter to a file, in one step. So who looks at its time sees that it is to be loaded again.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn write_interpreter(&self, path: &Path) -> Result<(), BuildError> {
        let interpreter = &self.interpreter;
        let bytes = fs::read(interpreter).map_err(|source| BuildError::io("read", interpreter, source))?;
        write_readable(path, &bytes)
    }
}

fn write_readable(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    write_private(path, bytes)?;
    fs::set_permissions(path, private::readable_permissions()).map_err(|source| BuildError::io("write", path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_has_the_modules_of_a_project() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("app.py", "import helpers.text"),
            ("helpers/text.py", "def f(): pass"),
            ("package/__init__.py", "X = 1"),
            ("tests/test_app.py", ""),
            (".hidden/a.py", ""),
            ("env/pyvenv.cfg", ""),
            ("env/lib/a.py", ""),
            ("notes.txt", ""),
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut modules = Modules::default();
        modules.add_folder(folder.path(), &["tests"]).unwrap();
        let program = String::from_utf8(modules.into_program("app".to_owned()).unwrap()).unwrap();
        let (header, texts) = program.split_once('\n').unwrap();
        let header: serde_json::Value = serde_json::from_str(header).unwrap();
        let names: Vec<&String> = header["modules"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["app", "helpers", "helpers.text", "package"]);
        let place = &header["modules"]["helpers.text"];
        let offset = place["offset"].as_u64().unwrap() as usize;
        assert!(texts[offset..].starts_with("def f(): pass"), "{program}");
        assert_eq!((place["file"].as_str(), &place["is_package"]), (Some("/0/helpers/text.py"), &false.into()));
        assert_eq!(header["modules"]["helpers"]["is_package"], true);
        assert_eq!(header["modules"]["package"]["is_package"], true);
    }
}
