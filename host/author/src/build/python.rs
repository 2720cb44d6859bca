//! Components in Python, by componentize-py.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::python_sdk::{self, PythonEntry, PythonSdk};
use super::{BuildError, CompilerOutput, Labels, syntax, toolchain};
use crate::project::Project;

/// The environment variable with the program to use, which takes precedence.
const VARIABLE: &str = "FUMEHOOD_COMPONENTIZE_PY";
/// The release that scaffolds ask for, and that is tested.
pub(crate) const COMPONENTIZE_PY: &str = "0.25.1";
/// The module that an interpreter begins with.
const INTERPRETER: &str = include_str!("development.py");
/// The folders of virtual environments that are looked into.
const ENVIRONMENTS: [&str; 2] = [".venv", "venv"];

/// The world of the SDK for a project.
fn world_of(project: &Project) -> &'static str {
    match (project.settings.hook, project.settings.http) {
        (false, false) => "tool",
        (false, true) => "tool-with-http",
        (true, false) => "hook",
        (true, true) => "hook-with-http",
    }
}

pub(super) fn compile(project: &Project) -> Result<CompilerOutput, BuildError> {
    let settings = &project.settings;
    let module = settings.module.as_deref().unwrap_or_default();
    // Absolute, because the program runs in the folder of the project.
    let folder = absolute(&project.folder);
    let program = require_compiler(project)?;

    let scratch = super::scratch()?;
    let output = scratch.path().join("component.wasm");
    let mut componentize = componentize(&program);
    match settings.world.as_deref() {
        Some(world) => {
            componentize.arg("--wit-path").arg(absolute(&project.wit())).args(["--world", world, "componentize"]);
            componentize.arg("--python-path").arg(&folder).arg("--output").arg(&output).arg(module);
        }
        None => {
            let entry = if settings.hook { PythonEntry::Hooks } else { PythonEntry::Tools };
            let sdk = PythonSdk::write(&folder, scratch.path(), entry, module)?;
            add_sdk(&mut componentize, &sdk, world_of(project), &[&folder, &sdk.modules, &sdk.entry]);
            componentize.arg("--output").arg(&output).arg(python_sdk::ENTRY);
        }
    }
    componentize.current_dir(&folder);
    if let Some(environment) = environment_of(&program) {
        // Packages that are installed there become part of the component.
        componentize.env("VIRTUAL_ENV", environment);
    }
    let messages = toolchain::capture_messages(&mut componentize, "componentize-py");
    let messages = messages.map_err(|error| explain(project, error))?;
    let component = std::fs::read(&output);
    let component = component.map_err(|source| BuildError::Io { action: "read", path: output, source })?;
    Ok(CompilerOutput { component, labels: Labels::of(project, project.about.clone()), dependencies: None, messages })
}

/// Returns the error of a module as its author reads it, where the messages of componentize-py have one.
fn explain(project: &Project, error: BuildError) -> BuildError {
    let text = error.to_string();
    let place = |file: &str| project.join(Path::new(file));
    let shown = |file: &str| if place(file).is_file() { place(file).display().to_string() } else { file.to_owned() };
    if let Some(found) = syntax::find_sdk_error(&text) {
        return BuildError::Syntax(match found.split_once(':') {
            Some((file, rest)) => format!("{}:{rest}", shown(file)),
            None => found,
        });
    }
    match syntax::find_python_error(&text) {
        Some((file, line, message)) => BuildError::Syntax(format!("{}:{line}: {message}", shown(file))),
        None => error,
    }
}

/// Returns the command of componentize-py. A trace of the compiler itself would hide its message.
fn componentize(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("--quiet").env_remove("RUST_BACKTRACE").env_remove("RUST_LIB_BACKTRACE");
    command
}

/// Adds the world of the SDK and the folders of modules.
fn add_sdk(componentize: &mut Command, sdk: &PythonSdk, world: &str, modules: &[&Path]) {
    componentize.arg("--wit-path").arg(&sdk.wit).args(["--world", world, "componentize"]);
    for modules in modules {
        componentize.arg("--python-path").arg(modules);
    }
}

/// Builds an interpreter, which reads its program from a granted folder.
pub(super) fn build_interpreter(project: &Project, compiler: &Path) -> Result<Vec<u8>, BuildError> {
    let scratch = super::scratch()?;
    let output = scratch.path().join("component.wasm");
    let sdk = PythonSdk::write_entry(&absolute(&project.folder), scratch.path(), INTERPRETER)?;
    let mut componentize = componentize(compiler);
    add_sdk(&mut componentize, &sdk, world_of(project), &[&sdk.modules, &sdk.entry]);
    componentize.arg("--output").arg(&output).arg(python_sdk::ENTRY).current_dir(scratch.path());
    toolchain::capture_messages(&mut componentize, "componentize-py")?;
    std::fs::read(&output).map_err(|source| BuildError::io("read", &output, source))
}

/// Returns a digest of everything that an interpreter is built from.
pub(super) fn interpreter_key(project: &Project, compiler: &Path) -> Result<String, BuildError> {
    let metadata = std::fs::metadata(compiler).and_then(|metadata| metadata.modified());
    let installed = metadata.map_err(|source| BuildError::io("read", compiler, source))?;
    let installed = installed.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos().to_string();
    let compiler = compiler.display().to_string();
    let sdk: Vec<&str> = PythonSdk::texts().collect();
    let texts = [INTERPRETER, world_of(project), compiler.as_str(), installed.as_str()];
    Ok(super::interpreter_key(texts.into_iter().chain(sdk)))
}

/// Returns the folders of packages that are installed beside a compiler.
pub(super) fn site_packages(compiler: &Path) -> Vec<PathBuf> {
    let library = environment_of(compiler).map(|environment| environment.join("lib"));
    let entries = library.and_then(|library| std::fs::read_dir(library).ok()).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().join("site-packages")).filter(|folder| folder.is_dir()).collect()
}

/// Returns componentize-py, as [`find_compiler`] finds it.
///
/// # Errors
/// If it is not installed.
pub(super) fn require_compiler(project: &Project) -> Result<PathBuf, BuildError> {
    find_compiler(project).ok_or_else(not_installed)
}

/// Returns componentize-py: the one that the variable names, one in a virtual environment of the project, or one of the
/// search path.
pub(super) fn find_compiler(project: &Project) -> Option<PathBuf> {
    let folder = absolute(&project.folder);
    let folders: Vec<PathBuf> = ENVIRONMENTS.iter().map(|name| folder.join(name).join("bin")).collect();
    toolchain::find_program(VARIABLE, &folders, "componentize-py")
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the virtual environment that a program is installed in.
fn environment_of(program: &Path) -> Option<PathBuf> {
    let environment = program.parent()?.parent()?;
    environment.join("pyvenv.cfg").is_file().then(|| environment.to_owned())
}

fn not_installed() -> BuildError {
    BuildError::MissingTool {
        what: "componentize-py is not installed".to_owned(),
        remedy: format!(
            "install it with `python3 -m venv .venv && .venv/bin/pip install componentize-py=={COMPONENTIZE_PY}`"
        ),
    }
}
