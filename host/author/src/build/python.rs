//! Components in Python, by componentize-py.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::python_sdk::{self, PythonSdk};
use super::{BuildError, CompilerOutput, Labels, syntax, toolchain};
use crate::project::Project;

/// The environment variable with the program to use, which takes precedence.
const VARIABLE: &str = "FUMEHOOD_COMPONENTIZE_PY";
/// The release that scaffolds ask for, and that is tested.
pub(crate) const COMPONENTIZE_PY: &str = "0.25.1";
/// The folders of virtual environments that are looked into.
const ENVIRONMENTS: [&str; 2] = [".venv", "venv"];

pub(super) fn compile(project: &Project) -> Result<CompilerOutput, BuildError> {
    let settings = &project.settings;
    let module = settings.module.as_deref().unwrap_or_default();
    // Absolute, because the program runs in the folder of the project.
    let folder = absolute(&project.folder);
    let program = find_compiler(project).ok_or_else(not_installed)?;

    let scratch = super::scratch()?;
    let output = scratch.path().join("component.wasm");
    let mut componentize = Command::new(&program);
    componentize.arg("--quiet");
    match settings.world.as_deref() {
        Some(world) => {
            componentize.arg("--wit-path").arg(absolute(&project.wit())).args(["--world", world, "componentize"]);
            componentize.arg("--python-path").arg(&folder).arg("--output").arg(&output).arg(module);
        }
        None => {
            let sdk = PythonSdk::write(&folder, scratch.path(), module)?;
            let world = if settings.http { "tool-with-http" } else { "tool" };
            componentize.arg("--wit-path").arg(&sdk.wit).args(["--world", world, "componentize"]);
            for modules in [&folder, &sdk.modules, &sdk.entry] {
                componentize.arg("--python-path").arg(modules);
            }
            componentize.arg("--output").arg(&output).arg(python_sdk::ENTRY);
        }
    }
    // A trace of the compiler itself would hide its message.
    componentize.current_dir(&folder).env_remove("RUST_BACKTRACE").env_remove("RUST_LIB_BACKTRACE");
    if let Some(environment) = environment_of(&program) {
        // Packages that are installed there become part of the component.
        componentize.env("VIRTUAL_ENV", environment);
    }
    let messages = toolchain::capture_messages(&mut componentize, "componentize-py");
    let messages = messages.map_err(|error| match syntax::find_python_error(&error.to_string()) {
        Some((file, line, message)) => {
            let path = project.join(Path::new(file));
            let shown = if path.is_file() { path.display().to_string() } else { file.to_owned() };
            BuildError::Syntax(format!("{shown}:{line}: {message}"))
        }
        None => error,
    })?;
    let component = std::fs::read(&output);
    let component = component.map_err(|source| BuildError::Io { action: "read", path: output, source })?;
    Ok(CompilerOutput { component, labels: Labels::of(project, project.about.clone()), dependencies: None, messages })
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
