//! Components in JavaScript and TypeScript, by esbuild and ComponentizeJS in Node.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{BuildError, CompilerOutput, Labels, interpreter_key, javascript_sdk, toolchain, write_file};
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
/// The name of the joined modules, which `stack.js` of the SDK looks for.
const BUNDLE_FILE: &str = "bundle.js";

/// The module that an interpreter begins with, which imports `stack.js` of the SDK.
const INTERPRETER: &str = include_str!("development.js");
/// The world of an interpreter, and its WIT beside the contract.
const INTERPRETER_WORLD: &str = "development";
const INTERPRETER_WIT: [(&str, &str); 2] =
    [("development.wit", include_str!("development.wit")), ("deps/filesystem.wit", include_str!("filesystem.wit"))];

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
}

/// The modules of a project, its packages and the SDK, joined in one file.
struct Bundle {
    file: PathBuf,
    /// The file with the positions of the sources in it.
    positions: PathBuf,
    /// Warnings.
    messages: String,
}

/// What the modules of a project are joined for.
#[derive(Debug, Clone, Copy)]
enum BundleForm {
    /// A module of a component.
    Module,
    /// A script that an interpreter evaluates.
    Script,
}

/// Node, and a project whose packages are installed.
pub(super) struct NodeProject<'a> {
    project: &'a Project,
    node: PathBuf,
    /// The folder of the project, without links.
    folder: PathBuf,
    /// The manifest of ComponentizeJS.
    compiler: PathBuf,
}

pub(super) fn compile(project: &Project) -> Result<CompilerOutput, BuildError> {
    let node = NodeProject::find(project)?;
    let scratch = super::scratch()?;
    let (source, warnings) = match project.settings.world.as_deref() {
        Some(world) => {
            let source = Source {
                folder: node.folder.clone(),
                module: project.settings.module.clone().unwrap_or_default(),
                wit: std::path::absolute(project.wit()).unwrap_or_else(|_| project.wit()),
                world: world.to_owned(),
                disabled: project.settings.disable.clone(),
                positions: None,
            };
            (source, String::new())
        }
        None => {
            let Bundle { file, positions, messages } = node.bundle(BundleForm::Module, scratch.path())?;
            let source = Source {
                folder: file.parent().unwrap_or(scratch.path()).to_owned(),
                module: BUNDLE_FILE.to_owned(),
                wit: javascript_sdk::write_wit(scratch.path(), &[])?,
                world: WORLD.to_owned(),
                disabled: disabled_features(project),
                positions: Some(positions),
            };
            (source, messages)
        }
    };
    let (component, messages) = node.componentize(source, scratch.path())?;
    let messages = format!("{warnings}\n{messages}").trim().to_owned();
    Ok(CompilerOutput { component, labels: Labels::of(project, project.about.clone()), dependencies: None, messages })
}

impl<'a> NodeProject<'a> {
    /// Finds Node, and the packages of a project.
    ///
    /// # Errors
    /// If one is missing.
    pub(super) fn find(project: &'a Project) -> Result<Self, BuildError> {
        let node = find_node().ok_or_else(|| BuildError::MissingTool {
            what: "node is not installed".to_owned(),
            remedy: "install Node 20 or newer, from https://nodejs.org".to_owned(),
        })?;
        let folder = project.folder.canonicalize();
        let folder = folder.map_err(|source| BuildError::io("find", &project.folder, source))?;
        let compiler = require_package(&folder, COMPONENTIZE_PACKAGE, "npm install")?;
        Ok(Self { project, node, folder, compiler })
    }

    /// Builds an interpreter, which reads its program from a granted folder.
    pub(super) fn build_interpreter(&self) -> Result<Vec<u8>, BuildError> {
        let scratch = super::scratch()?;
        let modules = scratch.path().join("modules");
        let module = "development.js";
        for (name, text) in [(module, INTERPRETER), ("stack.js", javascript_sdk::STACK)] {
            write_file(&modules.join(name), text)?;
        }
        let source = Source {
            folder: modules,
            module: module.to_owned(),
            wit: javascript_sdk::write_wit(scratch.path(), &INTERPRETER_WIT)?,
            world: INTERPRETER_WORLD.to_owned(),
            disabled: disabled_features(self.project),
            positions: None,
        };
        self.componentize(source, scratch.path()).map(|(component, _)| component)
    }

    /// Returns a digest of everything that an interpreter is built from.
    pub(super) fn interpreter_key(&self) -> Result<String, BuildError> {
        let compiler = std::fs::read_to_string(&self.compiler);
        let compiler = compiler.map_err(|source| BuildError::io("read", &self.compiler, source))?;
        let disabled = disabled_features(self.project).join(",");
        let texts = [INTERPRETER, javascript_sdk::STACK, COMPONENTIZE, compiler.as_str(), disabled.as_str()];
        Ok(interpreter_key(texts.into_iter().chain(javascript_sdk::wit_texts(&INTERPRETER_WIT))))
    }

    /// Returns the program of the project for an interpreter, and warnings.
    pub(super) fn make_program(&self) -> Result<(Vec<u8>, String), BuildError> {
        let scratch = super::scratch()?;
        let Bundle { file, messages, .. } = self.bundle(BundleForm::Script, scratch.path())?;
        let program = std::fs::read(&file).map_err(|source| BuildError::io("read", &file, source))?;
        Ok((program, messages))
    }

    /// Makes a component. Returns messages of the compiler too.
    fn componentize(&self, source: Source, scratch: &Path) -> Result<(Vec<u8>, String), BuildError> {
        let output = scratch.join("component.wasm");
        // The path of the sources becomes part of the component. Through this link it is the same wherever they are.
        let sources = scratch.join("source");
        files::create_link(&source.folder, &sources).map_err(|error| BuildError::io("link", &sources, error))?;
        let mut componentize = self.run_program(COMPONENTIZE);
        componentize.arg(sources.join(&source.module)).arg(&source.wit).arg(&source.world).arg(&output);
        componentize.arg(source.disabled.join(",")).arg(scratch.file_name().unwrap_or_default());
        componentize.args(source.positions).env("TMPDIR", scratch);
        let messages = toolchain::capture_source_errors(&mut componentize, "componentize-js")?;
        let component = std::fs::read(&output).map_err(|source| BuildError::io("read", &output, source))?;
        Ok((component, messages))
    }

    /// Joins the module of the project, its packages and the SDK.
    fn bundle(&self, form: BundleForm, scratch: &Path) -> Result<Bundle, BuildError> {
        let install = format!("npm install --save-dev --save-exact esbuild@{ESBUILD}");
        require_package(&self.folder, ESBUILD_PACKAGE, &install)?;
        javascript_sdk::write_package(&self.folder)?;
        let modules = scratch.join("bundle");
        std::fs::create_dir(&modules).map_err(|source| BuildError::io("create", &modules, source))?;
        let file = modules.join(BUNDLE_FILE);
        let positions = scratch.join("positions.json");
        let settings = &self.project.settings;
        let mut bundle = self.run_program(BUNDLE);
        bundle.arg(&self.folder).arg(settings.module.as_deref().unwrap_or_default());
        bundle.arg(if settings.http { "http" } else { "" }).arg(&file).arg(&positions).arg(match form {
            BundleForm::Module => "module",
            BundleForm::Script => "script",
        });
        let messages = toolchain::capture_source_errors(&mut bundle, "esbuild")?;
        Ok(Bundle { file, positions, messages })
    }

    /// Returns the command that runs a program in Node. It runs in the folder of the project, because that is where Node
    /// looks for what a program without a file imports.
    fn run_program(&self, program: &str) -> Command {
        let mut command = Command::new(&self.node);
        command.current_dir(&self.folder).args(["--input-type=module", "--eval", program, "--"]);
        command
    }
}

/// Returns the features of the runtime that a project with the SDK does without.
fn disabled_features(project: &Project) -> Vec<String> {
    let mut disabled = project.settings.disable.clone();
    disabled.push("fetch-event".to_owned());
    if !project.settings.http {
        disabled.push("http".to_owned());
    }
    disabled
}

/// Returns the manifest of a package that is installed where Node finds it.
fn require_package(folder: &Path, package: &str, install: &str) -> Result<PathBuf, BuildError> {
    let manifest = Path::new("node_modules").join(package).join("package.json");
    let found = folder.ancestors().map(|ancestor| ancestor.join(&manifest)).find(|manifest| manifest.is_file());
    found.ok_or_else(|| BuildError::MissingTool {
        what: format!("{package} is not installed"),
        remedy: format!("install it with `{install}`"),
    })
}

/// Returns Node: the one that the variable names, or one of the search path.
pub(super) fn find_node() -> Option<PathBuf> {
    toolchain::find_program(VARIABLE, &[], "node")
}
