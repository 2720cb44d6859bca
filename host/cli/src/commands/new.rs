//! `fumehood new`: writes the files of a new project.

use std::path::Path;

use anyhow::Result;
use fumehood_author::scaffold::Scaffold;

use crate::args::{self, Arguments};
use crate::exit::Exit;
use crate::render;

pub(crate) fn run(arguments: &Arguments, new: &args::New) -> Result<Exit> {
    let scaffold =
        if new.agent { Scaffold::agent(&new.name)? } else { Scaffold::tool(&new.name, new.lang, new.dialect)? };
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
    render::line(&format!("created {name}/ with {} files; {name}/README.md lists the requirements", files.len()))?;
    let setup = scaffold.setup_command().map(|command| format!("{command} && ")).unwrap_or_default();
    let next = if new.agent { "cargo run" } else { "fumehood build && fumehood test" };
    render::line(&format!("next: cd {name} && {setup}{next}"))?;
    if !new.agent {
        render::line("then: fumehood dev, which builds, tests and serves the tool whenever a file changes")?;
        render::line("in a fumehood.toml beside the project:")?;
        render::lines(&format!("  [tools.{name}]\n  component = \"{name}/dist/{name}.wasm\""))?;
    }
    Ok(Exit::Ok)
}
