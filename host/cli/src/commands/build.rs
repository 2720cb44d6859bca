//! `fumehood build`: makes the component of a project.

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::limits::display_bytes;
use fumehood::{ComponentError, Grant, Load};
use fumehood_author::build::{
    BuildError, BuildOutput, DevelopmentBuild, PROGRAM_ERROR, build, build_draft, build_for_development,
    build_reproducibly, check_settings, check_syntax,
};
use fumehood_author::cases::grant_program;
use fumehood_author::{Language, Project};

use crate::args::{self, Arguments};
use crate::exit::{ComponentLoadError, Exit};
use crate::user_folders::compiled_crates;
use crate::{host, render};

pub(crate) async fn run(arguments: &Arguments, options: &args::Build) -> Result<Exit> {
    let project = Project::open(&options.project)?;
    let output = options.output.clone().unwrap_or_else(|| project.component());
    let kind = if options.check { BuildKind::Checked } else { BuildKind::Ordinary };
    let built = make(arguments, &project, &output, kind).await?;
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

/// The kind of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BuildKind {
    Ordinary,
    /// Builds the component once more from nothing, and fails if the results differ.
    Checked,
    /// Builds a component for development, fast.
    Draft,
}

/// Builds the component of a project, and loads it. Nothing is written.
///
/// # Errors
/// If the component cannot be built, or no host would load it, for instance because a schema of it is not valid.
pub(crate) async fn make(
    arguments: &Arguments,
    project: &Project,
    output: &Path,
    kind: BuildKind,
) -> Result<BuildOutput> {
    check_settings(project)?;
    if let Some(warning) = check_syntax(project)? {
        render::warning(&warning);
    }
    let shared = if arguments.no_cache { None } else { compiled_crates() };
    let built_project = project.clone();
    let shown = output.to_owned();
    let building = tokio::task::spawn_blocking(move || match kind {
        BuildKind::Ordinary => build_visibly(&built_project, shared.as_deref(), &shown),
        BuildKind::Checked => build_reproducibly(&built_project, shared.as_deref()),
        BuildKind::Draft => build_draft(&built_project, shared.as_deref()),
    });
    let built = building.await.context("the build was interrupted")??;
    let load = Load::bytes(project.name.as_str(), built.component.as_slice());
    check_loads(arguments, output, load).await?;
    Ok(built)
}

/// Builds the program of a project for an interpreter of the folder `interpreters`, and loads both. The program is written to
/// the folder `candidate` for that.
///
/// # Errors
/// If it cannot be built, or the interpreter fails to load it.
pub(crate) async fn make_program(
    arguments: &Arguments,
    project: &Project,
    interpreters: &Path,
    candidate: &Path,
) -> Result<DevelopmentBuild> {
    check_settings(project)?;
    if let Some(warning) = check_syntax(project)? {
        render::warning(&warning);
    }
    let built_project = project.clone();
    let folder = interpreters.to_owned();
    let building = tokio::task::spawn_blocking(move || build_for_development(&built_project, &folder));
    let built = building.await.context("the build was interrupted")??;
    if !built.messages.is_empty() {
        render::warning(&format!("the compiler wrote: {}", built.messages));
    }
    built.write_program(candidate)?;
    let load = Load::path(&built.interpreter).named(project.name.as_str());
    let load = load.grant(grant_program(Grant::none(), candidate)?).describe_with_grant();
    match check_loads(arguments, Path::new(&project.name), load).await? {
        Some(error) => Err(BuildError::Syntax(error).into()),
        None => Ok(built),
    }
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

/// Loads a component that was just built. Its code is in the cache then, for the first call. Returns the error of a program
/// that its interpreter cannot load.
async fn check_loads(arguments: &Arguments, shown: &Path, load: Load) -> Result<Option<String>> {
    let host = host::builder(arguments).build()?;
    let loaded = host::load(&host, &shown.display().to_string(), load.allow_slow_compile()).await;
    let tools = host.tools();
    host.shutdown(Duration::ZERO).await;
    match loaded {
        Err(error) if !needs_other_host(&error) => return Err(error),
        _ => {}
    }
    let mut definitions = tools.iter().map(|tool| tool.definition());
    let error = definitions.find(|definition| definition.name.as_str() == PROGRAM_ERROR);
    Ok(error.map(|definition| definition.description.to_sanitized().into_owned()))
}

/// Returns whether a component cannot be loaded here because it needs what only the host of an embedder has.
fn needs_other_host(error: &anyhow::Error) -> bool {
    use ComponentError::{UngrantedCapability, UnknownImport};
    matches!(
        error.downcast_ref(),
        Some(ComponentLoadError::Component { source: UnknownImport(_) | UngrantedCapability { .. }, .. })
    )
}
