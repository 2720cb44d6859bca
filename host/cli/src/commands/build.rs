//! `fumehood build`: makes the component of a project.

use std::io::IsTerminal as _;
use std::path::Path;

use anyhow::Result;
use fumehood::limits::display_bytes;
use fumehood_author::build::{BuildError, BuildOutput, build, build_reproducibly, check_syntax};
use fumehood_author::{Language, Project};

use crate::args::{self, Arguments};
use crate::exit::Exit;
use crate::user_folders::compiled_crates;
use crate::{host, render};

pub(crate) fn run(arguments: &Arguments, options: &args::Build) -> Result<Exit> {
    let project = Project::open(&options.project)?;
    if let Some(warning) = check_syntax(&project)? {
        render::warning(&warning);
    }
    let output = options.output.clone().unwrap_or_else(|| project.component());
    let shared = if arguments.no_cache { None } else { compiled_crates() };
    let shared = shared.as_deref();
    let built =
        if options.check { build_reproducibly(&project, shared)? } else { build_visibly(&project, shared, &output)? };
    built.write(&output)?;
    let BuildOutput { component, dependencies, notes, labels, .. } = &built;
    let output = output.display().to_string();
    let digest = built.digest();
    if arguments.json {
        render::json(&serde_json::json!({
            "output": output,
            "bytes": component.len(),
            "digest": format!("sha256:{digest}"),
            "name": labels.name,
            "version": labels.version,
            "license": labels.license,
            "revision": labels.revision,
            "dependencies": dependencies,
            "reproducible": options.check,
            "notes": notes,
        }))?;
        return Ok(Exit::Ok);
    }
    for note in notes {
        render::warning(note);
    }
    let twice = if options.check { "; two builds gave the same bytes" } else { "" };
    render::line(&format!("wrote {output} ({}, sha256:{digest}){twice}", display_bytes(component.len() as u64)))?;
    Ok(Exit::Ok)
}

/// Builds a component. The compilers of Python and JavaScript print nothing while they work, so something else is shown.
fn build_visibly(project: &Project, shared: Option<&Path>, output: &Path) -> Result<BuildOutput, BuildError> {
    if !matches!(project.language, Language::Python | Language::Javascript | Language::Typescript) {
        return build(project, shared);
    }
    let message = format!("building {}, which takes up to two minutes", output.display());
    if !std::io::stderr().is_terminal() {
        render::note(&message);
    }
    let spinner = host::spinner(message);
    let built = build(project, shared);
    spinner.finish_and_clear();
    built
}
