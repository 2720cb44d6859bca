//! The command that rebuilds `example-tools/dist/` and the interpreter, or lists stale components.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use fumehood_build_tools::{
    BuildRecord, ExampleTool, INTERPRETER, InterpreterToolchain, REBUILD, Record, Workspace, build, build_interpreter,
    choose_toolchain, component_digest, find_tools, interpreter_digest, source_digest,
};

/// Rebuild the example components, and the interpreter of code mode if it is stale, from source.
#[derive(Debug, Parser)]
#[command(name = "fumehood-build-tools")]
struct Arguments {
    /// Build nothing; say which components are stale, and fail if any is.
    #[arg(long)]
    check: bool,
    /// The folder of the components [default: example-tools/dist, and host/runtime/interpreters for the interpreter].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only these tools, or `javascript`, the interpreter.
    #[arg(value_name = "TOOL")]
    tools: Vec<String>,
}

/// A component that this command builds.
#[derive(Clone, Copy, Debug)]
enum Target {
    Tool(ExampleTool),
    Interpreter,
}

impl Target {
    /// Finds targets by name, or returns all of them if `names` is empty.
    fn find(names: &[String]) -> Result<Vec<Self>> {
        let (interpreters, tools): (Vec<String>, Vec<String>) =
            names.iter().cloned().partition(|name| name == INTERPRETER);
        let mut targets = Vec::new();
        if names.is_empty() || !tools.is_empty() {
            targets.extend(find_tools(&tools)?.into_iter().map(Self::Tool));
        }
        if names.is_empty() || !interpreters.is_empty() {
            targets.push(Self::Interpreter);
        }
        Ok(targets)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Tool(tool) => tool.name,
            Self::Interpreter => INTERPRETER,
        }
    }

    /// Returns the folder of its component in the checkout.
    fn dist(&self, workspace: &Workspace) -> PathBuf {
        match self {
            Self::Tool(_) => workspace.dist(),
            Self::Interpreter => workspace.interpreters(),
        }
    }

    fn source_digest(&self, workspace: &Workspace) -> Result<String> {
        match self {
            Self::Tool(tool) => source_digest(workspace, tool),
            Self::Interpreter => interpreter_digest(workspace),
        }
    }

    /// Builds it, and returns the component and the versions of the compilers.
    fn build(&self, workspace: &Workspace) -> Result<(Vec<u8>, String)> {
        match self {
            Self::Tool(tool) => {
                let toolchain = choose_toolchain(workspace, tool.target)?;
                Ok((build(workspace, tool, &toolchain)?, toolchain.version().to_owned()))
            }
            Self::Interpreter => {
                let toolchain = InterpreterToolchain::choose(workspace)?;
                Ok((build_interpreter(workspace, &toolchain)?, toolchain.version()))
            }
        }
    }
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let workspace = Workspace::current();
    let targets = Target::find(&arguments.tools)?;
    if arguments.check {
        return check(&workspace, arguments.out.as_deref(), &targets);
    }
    for target in targets {
        let dist = arguments.out.clone().unwrap_or_else(|| target.dist(&workspace));
        // It takes minutes, and a C compiler that nothing else needs.
        let is_optional = matches!(target, Target::Interpreter) && arguments.tools.is_empty();
        let sources = target.source_digest(&workspace)?;
        if is_optional && Record::read(&dist)?.staleness(&dist, target.name(), &sources)?.is_none() {
            continue;
        }
        rebuild(&workspace, &dist, &target)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn check(workspace: &Workspace, out: Option<&Path>, targets: &[Target]) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for target in targets {
        let dist = out.map_or_else(|| target.dist(workspace), Path::to_owned);
        let sources = target.source_digest(workspace)?;
        if let Some(staleness) = Record::read(&dist)?.staleness(&dist, target.name(), &sources)? {
            code = ExitCode::FAILURE;
            let path = dist.join(target.name()).with_extension("wasm");
            writeln!(io::stderr(), "{} is {staleness}; run `{REBUILD}`", path.display())?;
        }
    }
    Ok(code)
}

fn rebuild(workspace: &Workspace, dist: &Path, target: &Target) -> Result<()> {
    fs::create_dir_all(dist).with_context(|| format!("cannot make the folder {}", dist.display()))?;
    let mut record = Record::read(dist)?;
    // Computed before the build, so that a source that changes during it makes the component stale.
    let sources = target.source_digest(workspace)?;
    let (component, compiler) = target.build(workspace)?;
    let path = dist.join(target.name()).with_extension("wasm");
    fs::write(&path, &component).with_context(|| format!("cannot write {}", path.display()))?;
    record.insert(target.name(), BuildRecord { sources, component: component_digest(&component), compiler });
    record.write(dist)?;
    writeln!(io::stdout(), "{} ({} bytes)", path.display(), component.len())?;
    Ok(())
}
