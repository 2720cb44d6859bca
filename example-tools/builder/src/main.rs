//! The command that rebuilds `example-tools/dist/`, or lists stale components.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use fumehood_build_tools::{
    BuildRecord, ExampleTool, REBUILD, Record, Workspace, build, choose_toolchain, component_digest, find_tools,
    source_digest,
};

/// Rebuild the example components from source.
#[derive(Debug, Parser)]
#[command(name = "fumehood-build-tools")]
struct Arguments {
    /// Build nothing; say which components are stale, and fail if any is.
    #[arg(long)]
    check: bool,
    /// The folder of the components [default: example-tools/dist].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only these tools.
    #[arg(value_name = "TOOL")]
    tools: Vec<String>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let workspace = Workspace::current();
    let tools = find_tools(&arguments.tools)?;
    let dist = arguments.out.unwrap_or_else(|| workspace.dist());
    if arguments.check {
        check(&workspace, &dist, &tools)
    } else {
        rebuild(&workspace, &dist, &tools)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn check(workspace: &Workspace, dist: &std::path::Path, tools: &[ExampleTool]) -> Result<ExitCode> {
    let record = Record::read(dist)?;
    let mut code = ExitCode::SUCCESS;
    for tool in tools {
        if let Some(staleness) = record.staleness(workspace, dist, tool)? {
            code = ExitCode::FAILURE;
            writeln!(io::stderr(), "{} is {staleness}; run `{REBUILD}`", dist.join(tool.file_name()).display())?;
        }
    }
    Ok(code)
}

fn rebuild(workspace: &Workspace, dist: &std::path::Path, tools: &[ExampleTool]) -> Result<()> {
    fs::create_dir_all(dist).with_context(|| format!("cannot make the folder {}", dist.display()))?;
    let mut record = Record::read(dist)?;
    for tool in tools {
        // Computed before the build, so that a source that changes during it makes the component stale.
        let sources = source_digest(workspace, tool)?;
        let toolchain = choose_toolchain(workspace, tool)?;
        let component = build(workspace, tool, &toolchain)?;
        let path = dist.join(tool.file_name());
        fs::write(&path, &component).with_context(|| format!("cannot write {}", path.display()))?;
        let built =
            BuildRecord { sources, component: component_digest(&component), compiler: toolchain.version().to_owned() };
        record.insert(tool, built);
        record.write(dist)?;
        writeln!(io::stdout(), "{} ({} bytes)", path.display(), component.len())?;
    }
    Ok(())
}
