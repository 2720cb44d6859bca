//! `fumehood inspect`: shows what a component is and could do, without calling any of its tools.

use anyhow::Result;
use fumehood::{Component, ResourceDefinition, ToolDefinition};
use fumehood_registry::policy::Trust;

use crate::args::{self, Arguments};
use crate::config::Config;
use crate::exit::Exit;
use crate::render::{self, Report};
use crate::trust::ConfigSource;
use crate::{host, published};

pub(crate) async fn run(arguments: &Arguments, inspect: &args::Inspect) -> Result<Exit> {
    let host = host::builder(arguments).build()?;
    // Files are looked at without a configuration; the policy for components of registries is in it.
    let config = match published::is_reference(&inspect.component) {
        true => ConfigSource::from_arguments(arguments).open()?,
        false => Config::none(),
    };
    let typed = host::typed_component(&config, &inspect.component, inspect.allow_slow_compile).await?;
    let component = host::load(&host, &typed.label, typed.load).await?;
    if let Some(Trust::Verified(verified)) = typed.stored.and_then(|stored| stored.trust) {
        render::note(&format!("{}: verified, signed by the key {}", typed.label, verified.key));
    }
    let report = report(typed.label, &component);
    if arguments.json {
        render::json(&report)?;
    } else {
        render::inspection(&report, inspect.full)?;
    }
    Ok(Exit::Ok)
}

fn report(file: String, component: &Component) -> Report<'_> {
    let mut powers: Vec<_> = component.imports().iter().filter_map(|import| import.power).collect();
    powers.sort_unstable();
    powers.dedup();
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
        powers,
        tools: component.definitions(),
        resources: component.resources(),
        sanitized: hidden.sum(),
        skipped: component.skipped(),
    }
}
