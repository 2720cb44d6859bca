//! `fumehood new`: writes the files of a new project.

use std::path::Path;

use anyhow::Result;
use fumehood_author::scaffold::{Scaffold, ScaffoldError};

use crate::args::{self, Arguments};
use crate::exit::Exit;
use crate::render;

pub(crate) fn run(arguments: &Arguments, new: &args::New) -> Result<Exit> {
    let scaffold = create(new)?;
    let scaffold = match &new.sdk {
        Some(checkout) => scaffold.sdk(checkout)?,
        None => scaffold,
    };
    let name = &new.name;
    let folder = Path::new(name);
    let files = if new.force { scaffold.overwrite(folder)? } else { scaffold.write(folder)? };
    if arguments.json {
        render::json(&serde_json::json!({"folder": name, "files": files}))?;
        return Ok(Exit::Ok);
    }
    let count = files.len();
    if new.template.is_some() {
        render::line(&format!("created {name}/ with {count} files of the template"))?;
        return Ok(Exit::Ok);
    }
    render::line(&format!("created {name}/ with {count} files; {name}/README.md lists the requirements"))?;
    let setup = scaffold.setup_command().map(|command| format!("{command} && ")).unwrap_or_default();
    let next = match (new.agent, new.hook) {
        (true, _) => "cargo run",
        (_, true) => "fumehood build",
        (false, false) => "fumehood build && fumehood test",
    };
    render::line(&format!("next: cd {name} && {setup}{next}"))?;
    if new.agent {
        return Ok(Exit::Ok);
    }
    if !new.hook {
        render::line("then: fumehood dev, which builds, tests and serves the tool whenever a file changes")?;
    }
    render::line("in a fumehood.toml beside the project:")?;
    if new.hook {
        render::lines(&format!("  [[hooks.component]]\n  name = \"{name}\"\n"))?;
    }
    render::lines(&format!("  [tools.{name}]\n  component = \"{name}/dist/{name}.wasm\""))?;
    Ok(Exit::Ok)
}

fn create(new: &args::New) -> Result<Scaffold, ScaffoldError> {
    match &new.template {
        Some(template) => Scaffold::folder(&new.name, template),
        None if new.agent => Scaffold::agent(&new.name),
        None if new.hook => Scaffold::hook(&new.name, new.lang),
        None => Scaffold::tool(&new.name, new.lang, new.dialect),
    }
}
