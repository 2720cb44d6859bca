//! Components in JavaScript and TypeScript, by esbuild and ComponentizeJS in Node.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{BuildError, CompilerOutput, Labels, javascript_sdk, toolchain};
use crate::project::Project;
use fumehood_platform::files;

/// The environment variable with the program to use, which takes precedence.
const VARIABLE: &str = "FUMEHOOD_NODE";
/// The program that calls ComponentizeJS. It gets everything as arguments, and writes nothing but the component.
const COMPONENTIZE: &str = include_str!("componentize.mjs");
/// The program that joins the modules of a project with the SDK.
const BUNDLE: &str = include_str!("bundle.mjs");
/// The packages that have to be installed in the project.
const COMPONENTIZE_PACKAGE: &str = "@bytecodealliance/componentize-js";
const ESBUILD_PACKAGE: &str = "esbuild";
/// The release of esbuild that scaffolds ask for, and that is tested.
pub(crate) const ESBUILD: &str = "0.28.2";
/// The world of a component with the SDK.
const WORLD: &str = "tool";

/// What ComponentizeJS makes a component of.
struct Source {
    /// The folder of the module.
    folder: PathBuf,
    /// The module in it.
    module: String,
    wit: PathBuf,
    world: String,
    /// The features of the runtime that the component does without.
    disabled: Vec<String>,
    /// The file with the positions of the sources in the module, if it was joined from several.
    positions: Option<PathBuf>,
    /// Warnings.
    messages: String,
}

pub(super) fn compile(project: &Project) -> Result<CompilerOutput, BuildError> {
    let module = project.settings.module.as_deref().unwrap_or_default();
    let node = find_node().ok_or_else(|| BuildError::MissingTool {
        what: "node is not installed".to_owned(),
        remedy: "install Node 20 or newer, from https://nodejs.org".to_owned(),
    })?;
    let folder = project.folder.canonicalize();
    let folder = folder.map_err(|source| BuildError::io("find", &project.folder, source))?;
    require_package(&folder, COMPONENTIZE_PACKAGE, "npm install")?;

    let scratch = super::scratch()?;
    let source = match project.settings.world.as_deref() {
        Some(world) => Source {
            folder: folder.clone(),
            module: module.to_owned(),
            wit: std::path::absolute(project.wit()).unwrap_or_else(|_| project.wit()),
            world: world.to_owned(),
            disabled: project.settings.disable.clone(),
            positions: None,
            messages: String::new(),
        },
        None => bundle(project, &node, &folder, module, scratch.path())?,
    };
    let output = scratch.path().join("component.wasm");
    // The path of the sources becomes part of the component. Through this link it is the same wherever they are.
    let sources = scratch.path().join("source");
    files::create_link(&source.folder, &sources).map_err(|error| BuildError::io("link", &sources, error))?;
    let mut componentize = run_program(&node, &folder, COMPONENTIZE);
    componentize.arg(sources.join(&source.module)).arg(&source.wit).arg(&source.world).arg(&output);
    componentize.arg(source.disabled.join(",")).arg(scratch.path().file_name().unwrap_or_default());
    componentize.args(source.positions).env("TMPDIR", scratch.path());
    let messages = toolchain::capture_source_errors(&mut componentize, "componentize-js")?;
    let messages = format!("{}\n{messages}", source.messages).trim().to_owned();
    let component = std::fs::read(&output);
    let component = component.map_err(|source| BuildError::io("read", &output, source))?;
    Ok(CompilerOutput { component, labels: Labels::of(project, project.about.clone()), dependencies: None, messages })
}

/// Joins the module of a project, its packages and the SDK in one module.
fn bundle(project: &Project, node: &Path, folder: &Path, module: &str, scratch: &Path) -> Result<Source, BuildError> {
    let install = format!("npm install --save-dev --save-exact esbuild@{ESBUILD}");
    require_package(folder, ESBUILD_PACKAGE, &install)?;
    let wit = javascript_sdk::write(folder, scratch)?;
    let modules = scratch.join("bundle");
    std::fs::create_dir(&modules).map_err(|source| BuildError::io("create", &modules, source))?;
    let file = modules.join("bundle.js");
    let positions = scratch.join("positions.json");
    let has_http = project.settings.http;
    let mut bundle = run_program(node, folder, BUNDLE);
    bundle.arg(folder).args([module, if has_http { "http" } else { "" }]).arg(&file).arg(&positions);
    let messages = toolchain::capture_source_errors(&mut bundle, "esbuild")?;
    let mut disabled = project.settings.disable.clone();
    disabled.push("fetch-event".to_owned());
    if !has_http {
        disabled.push("http".to_owned());
    }
    let module = "bundle.js".to_owned();
    Ok(Source { folder: modules, module, wit, world: WORLD.to_owned(), disabled, positions: Some(positions), messages })
}

/// Returns the command that runs a program in Node. It runs in the folder of the project, because that is where Node looks
/// for what a program without a file imports.
fn run_program(node: &Path, folder: &Path, program: &str) -> Command {
    let mut command = Command::new(node);
    command.current_dir(folder).args(["--input-type=module", "--eval", program, "--"]);
    command
}

/// Fails if a package is not installed where Node finds it.
fn require_package(folder: &Path, package: &str, install: &str) -> Result<(), BuildError> {
    let manifest = Path::new("node_modules").join(package).join("package.json");
    if folder.ancestors().any(|ancestor| ancestor.join(&manifest).is_file()) {
        return Ok(());
    }
    Err(BuildError::MissingTool {
        what: format!("{package} is not installed"),
        remedy: format!("install it with `{install}`"),
    })
}

/// Returns Node: the one that the variable names, or one of the search path.
pub(super) fn find_node() -> Option<PathBuf> {
    toolchain::find_program(VARIABLE, &[], "node")
}
