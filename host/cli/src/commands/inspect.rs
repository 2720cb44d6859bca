//! `fumehood inspect`: shows what a component is and could do, without calling any of its tools.

use anyhow::Result;
use fumehood::{Component, Load, ResourceDefinition, ToolDefinition};
use fumehood_registry::policy::Trust;

use super::approve;
use crate::app::App;
use crate::args::{self, Arguments};
use crate::configured::{ConfiguredComponent, Version};
use crate::exit::{Exit, UsageError};
use crate::render::{self, Report, WishReport};
use crate::{host, published};

pub(crate) async fn run(arguments: &Arguments, inspect: &args::Inspect) -> Result<Exit> {
    let host = host::builder(arguments).build()?;
    let name = host::configured_name(&inspect.component);
    // Files are looked at without a configuration; names and the policy for components of registries are in it.
    let app = App::open_if(arguments, name.is_some() || published::is_reference(&inspect.component))?;
    if let Some(name) = name {
        return inspect_configured(&app, inspect, name).await;
    }
    let typed = host::typed_component(&app.config, &inspect.component, inspect.allow_slow_compile).await?;
    let component = host::load(&host, &typed.label, typed.load).await?;
    if let Some(Trust::Verified(verified)) = typed.stored.and_then(|stored| stored.trust) {
        render::note(&format!("{}: verified, signed by the key {}", typed.label, verified.key));
    }
    print(arguments, inspect, &report(typed.label, &component))
}

/// Shows a component of the configuration, without its powers, which `fumehood approve` shows.
async fn inspect_configured(app: &App<'_>, inspect: &args::Inspect, name: &str) -> Result<Exit> {
    if app.config.mcp.servers.contains_key(name) {
        let message = format!(
            "`{name}` is an MCP server, not a component; `fumehood approve {name} --check --full` shows its tools"
        );
        return Err(UsageError(message).into());
    }
    let Some(ConfiguredComponent { file, label, .. }) = app.component(name, Version::Pinned).await? else {
        let unknown = approve::unknown_component(&app.config, name);
        return Err(UsageError(format!("no such file {name}, and {unknown}")).into());
    };
    let load = Load::path(&file);
    let load = if inspect.allow_slow_compile { load.allow_slow_compile() } else { load };
    let host = host::builder(app.arguments).build()?;
    print(app.arguments, inspect, &report(label.clone(), &host::load(&host, &label, load).await?))
}

fn print(arguments: &Arguments, inspect: &args::Inspect, report: &Report<'_>) -> Result<Exit> {
    if arguments.json {
        render::json(report)?;
    } else {
        render::inspection(report, inspect.full)?;
    }
    Ok(Exit::Ok)
}

fn report(file: String, component: &Component) -> Report<'_> {
    let hidden = component.definitions().iter().map(ToolDefinition::hidden_chars);
    let hidden = hidden.chain(component.resources().iter().map(ResourceDefinition::hidden_chars));
    Report {
        file,
        digest: component.digest().to_string(),
        bytes: component.size(),
        dialect: component.dialect(),
        accepted_contract: fumehood::ACCEPTED_CONTRACT,
        producers: component.producers(),
        imports: component.imports(),
        powers: render::powers(component.imports()),
        wishes: WishReport::read(component),
        tools: component.definitions(),
        resources: component.resources(),
        sanitized: hidden.sum(),
        skipped: component.skipped(),
    }
}
