//! `fumehood config`: checks the configuration, and prints its JSON Schema.

use std::path::Path;

use anyhow::Result;

use crate::args::{Arguments, Configuration};
use crate::config::{self, Config, DEFAULT_FILE_NAME};
use crate::exit::Exit;
use crate::render;

pub(crate) fn run(arguments: &Arguments, configuration: &Configuration) -> Result<Exit> {
    match configuration {
        Configuration::Check { file } => check(arguments, file.as_deref().or(arguments.config.as_deref())),
        Configuration::Schema => render::json(&config::schema()).map(|()| Exit::Ok),
    }
}

fn check(arguments: &Arguments, file: Option<&Path>) -> Result<Exit> {
    let config = Config::load_with_files(file.unwrap_or(Path::new(DEFAULT_FILE_NAME)))?;
    if arguments.json {
        render::json(&config)?;
    } else {
        render::line(&format!("{} is fine: {}", config.origin.display(), contents(&config)))?;
    }
    Ok(Exit::Ok)
}

fn contents(config: &Config) -> String {
    let count = |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
    [
        count(config.tools.len(), "component", "components"),
        count(config.mcp.servers.len(), "MCP server", "MCP servers"),
        count(config.skills.len(), "skill", "skills"),
    ]
    .join(", ")
}
