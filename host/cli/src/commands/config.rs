//! `fumehood config`: checks the configuration, and prints its JSON Schema.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use fumehood::{Host, Load, Lock, Namespace};

use crate::args::{Arguments, Configuration};
use fumehood_config::command::CommandSection;

use crate::config::mcp::McpServerSection;
use crate::config::registry::{self, Place};
use crate::config::server::name_prefix;
use crate::config::tool::ToolSection;
use crate::config::tool_names::{self, KnownTools};
use crate::config::{self, Config, DEFAULT_FILE_NAME, KeyFault};
use crate::exit::Exit;
use crate::source::missing_secrets;
use crate::{configured, host, published, render};

pub(crate) async fn run(arguments: &Arguments, configuration: &Configuration) -> Result<Exit> {
    match configuration {
        Configuration::Check { file } => check(arguments, file.as_deref().or(arguments.config.as_deref())).await,
        Configuration::Schema => render::json(&config::schema()).map(|()| Exit::Ok),
    }
}

async fn check(arguments: &Arguments, file: Option<&Path>) -> Result<Exit> {
    let file = file.unwrap_or(Path::new(DEFAULT_FILE_NAME));
    let config = config::load_with_files(file)?;
    let (known, mut faults) = load_tools(arguments, &config).await?;
    faults.extend(tool_names::check(&config, &known));
    config.reject(faults)?;
    for name in tool_names::unconfigured(&config, &known) {
        render::warning(&name);
    }
    for missing in missing_secrets(&config) {
        render::warning(&missing);
    }
    if arguments.json {
        render::json(&config)?;
    } else {
        render::line(&format!("{} is fine: {}", config.origin.display(), contents(&config)))?;
    }
    Ok(Exit::Ok)
}

/// Loads the components, without any power, to know their tools and hooks. The configuration need not be trusted:
/// nothing is called, no server is started, no registry is asked, and no secret is read.
async fn load_tools(arguments: &Arguments, config: &Config) -> Result<(KnownTools, Vec<KeyFault>)> {
    let host = host::builder(arguments).build()?;
    // The lock is read for the versions and the tools that it pins. Without one, they are not known.
    let lock = configured::open_lock_beside(&config.origin, true).ok();
    let offline = Config { offline: true, ..config.clone() };
    let mut known = KnownTools::of_host(config);
    let mut faults = Vec::new();
    for (name, section) in &config.tools {
        let Some(load) = find(&offline, lock.as_ref(), name, section).await else {
            known.add_unknown(name);
            continue;
        };
        if let Err(error) = host::load(&host, name, load).await {
            let key = if section.component.is_some() { "component" } else { "reference" };
            faults.push((path(&["tools", name, key]), format!("{error:#}")));
            known.add_unknown(name);
        }
    }
    for (name, file) in configured::components_in_folders(config)? {
        if !config.tools.contains_key(name.as_str()) && !load_from_folder(&host, &name, &file).await {
            known.add_unknown(name.as_str());
        }
    }
    known.extend(host.tools().iter().map(AsRef::as_ref));
    for (name, section) in &config.mcp.servers {
        add_server(&mut known, lock.as_ref(), name, section);
    }
    for (index, hook) in config.hooks.component.iter().enumerate() {
        // What is not loaded was reported.
        if let Err(error) = host.hook(&hook.name)
            && !known.is_unknown(&hook.name)
        {
            let keys = path(&["hooks", "component", &index.to_string(), "name"]);
            faults.push((keys, format!("[[hooks.component]] `{}`: {error}", hook.name)));
        }
    }
    host.shutdown(Duration::ZERO).await;
    Ok((known, faults))
}

/// Returns how the component of a section is loaded without its powers; `None` if it is not on this machine.
async fn find(config: &Config, lock: Option<&Lock>, name: &str, section: &ToolSection) -> Option<Load> {
    let load = match registry::place(section) {
        Ok(Place::Reference(reference)) => {
            let pinned = lock.and_then(|lock| configured::pinned_reference(lock, name, &reference));
            let stored = published::get_pinned(config, &[pinned.unwrap_or(reference)]).await;
            match stored {
                Ok(stored) => Load::stored(stored.first()?),
                Err(error) => {
                    render::note(&format!("the tools of `{name}` were not checked: {error:#}"));
                    return None;
                }
            }
        }
        _ => {
            let file: PathBuf = section.component.as_ref().map(|file| config.path(file))?;
            // A component that comes over a cell may not be there yet.
            if !file.exists() {
                return None;
            }
            Load::path(file)
        }
    };
    let mut load = load.named(name).limits(section.limits.over(config::default_limits(config, name)));
    // A malformed section was reported already.
    if let Some(Ok(command)) = section.command.as_ref().map(CommandSection::template) {
        load = load.command(command);
    }
    Some(if section.allow_slow_compile { load.allow_slow_compile() } else { load })
}

/// Loads a component of a folder in `tools_in`, and warns if it cannot be loaded, as `run` does. Returns whether it was.
async fn load_from_folder(host: &Host, name: &Namespace, file: &Path) -> bool {
    let loaded = host::load(host, name.as_str(), Load::path(file).named(name.as_str())).await;
    if let Err(error) = &loaded {
        render::warning(&format!("{error:#}; skipping {}", file.display()));
    }
    loaded.is_ok()
}

/// Adds the tools of a server that the lock has. Those of one that it does not have are not known.
fn add_server(known: &mut KnownTools, lock: Option<&Lock>, name: &str, section: &McpServerSection) {
    let approval = Namespace::parse(name).ok().and_then(|name| {
        let lock = lock?;
        lock.get(&name).or_else(|| lock.proposal(&name))
    });
    // An invalid prefix was reported when the configuration was read.
    let prefix = name_prefix(section).and_then(Result::ok);
    known.add_server(name, prefix.as_ref(), approval.map(|approval| approval.manifest()));
}

fn path(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn contents(config: &Config) -> String {
    [
        count(config.tools.len(), "component", "components"),
        count(config.mcp.servers.len(), "MCP server", "MCP servers"),
        count(config.skills.len(), "skill", "skills"),
    ]
    .join(", ")
}
