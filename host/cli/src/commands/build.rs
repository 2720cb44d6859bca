//! `fumehood build`: makes the component of a project.

use anyhow::Result;
use fumehood::limits::display_bytes;
use fumehood_author::Project;
use fumehood_author::build::{Built, build, build_reproducibly};

use crate::args::{self, Arguments};
use crate::exit::Exit;
use crate::render;

pub(crate) fn run(arguments: &Arguments, options: &args::Build) -> Result<Exit> {
    let project = Project::open(&options.project)?;
    let built = if options.check { build_reproducibly(&project)? } else { build(&project)? };
    let output = options.output.clone().unwrap_or_else(|| project.component());
    built.write(&output)?;
    let Built { component, dependencies, notes, labels } = &built;
    let (output, digest) = (output.display().to_string(), built.digest());
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
