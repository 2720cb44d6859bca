//! Components in JavaScript, by ComponentizeJS in Node.

use std::path::PathBuf;
use std::process::Command;

use super::{BuildError, CompilerOutput, Labels, toolchain};
use crate::project::Project;
use fumehood_platform::files;

/// The environment variable with the program to use, which takes precedence.
const VARIABLE: &str = "FUMEHOOD_NODE";
/// The program that calls the library. It gets everything as arguments, and writes nothing but the component.
const PROGRAM: &str = include_str!("componentize.mjs");
/// The package that has to be installed in the project.
const PACKAGE: &str = "node_modules/@bytecodealliance/componentize-js/package.json";

pub(super) fn compile(project: &Project) -> Result<CompilerOutput, BuildError> {
    let manifest = project.folder.join("package.json");
    let missing = |reason: &str| BuildError::setting(manifest.clone(), reason);
    let settings = &project.settings;
    let module = settings.module.as_deref();
    let module = module.ok_or_else(|| missing("`fumehood` has no `module`; name the file, such as \"tool.js\""))?;
    let world = settings.world.as_deref();
    let world = world.ok_or_else(|| missing("`fumehood` has no `world`; name the WIT world"))?;
    let node = find_node().ok_or_else(|| BuildError::MissingTool {
        what: "node is not installed".to_owned(),
        remedy: "install Node 20 or newer, from https://nodejs.org".to_owned(),
    })?;
    let has_package = project
        .folder
        .canonicalize()
        .is_ok_and(|folder| folder.ancestors().any(|ancestor| ancestor.join(PACKAGE).is_file()));
    if !has_package {
        return Err(BuildError::MissingTool {
            what: "@bytecodealliance/componentize-js is not installed".to_owned(),
            remedy: "install it with `npm install`".to_owned(),
        });
    }

    let scratch = super::scratch()?;
    let output = scratch.path().join("component.wasm");
    // The path of the sources becomes part of the component. Through this link it is the same wherever they are.
    let sources = scratch.path().join("source");
    let folder = project.folder.canonicalize();
    let folder = folder.map_err(|source| BuildError::io("find", &project.folder, source))?;
    files::create_link(&folder, &sources).map_err(|source| BuildError::io("link", &sources, source))?;
    let mut componentize = Command::new(node);
    // From the folder of the project, because that is where Node looks for what a program without a file imports.
    componentize.current_dir(&project.folder).args(["--input-type=module", "--eval", PROGRAM, "--"]);
    componentize.arg(sources.join(module)).arg(std::path::absolute(project.wit()).unwrap_or_else(|_| project.wit()));
    componentize
        .arg(world)
        .arg(&output)
        .arg(settings.disable.join(","))
        .arg(scratch.path().file_name().unwrap_or_default());
    componentize.env("TMPDIR", scratch.path());
    let messages = toolchain::capture_messages(&mut componentize, "componentize-js")?;
    let component = std::fs::read(&output);
    let component = component.map_err(|source| BuildError::io("read", &output, source))?;
    Ok(CompilerOutput { component, labels: Labels::of(project, project.about.clone()), dependencies: None, messages })
}

/// Returns Node: the one that the variable names, or one of the search path.
pub(super) fn find_node() -> Option<PathBuf> {
    toolchain::find_program(VARIABLE, &[], "node")
}
