//! `fumehood inspect`: shows what a component is and could do, without calling any of its tools.

use anyhow::Result;
use fumehood::{Component, ToolDefinition};

use crate::args::{self, Arguments};
use crate::exit::Exit;
use crate::host;
use crate::render::{self, Report};

pub(crate) async fn run(arguments: &Arguments, inspect: &args::Inspect) -> Result<Exit> {
    let host = host::builder(arguments).build()?;
    let (load, _) = host::prepare_load(&inspect.component, inspect.allow_slow_compile);
    let file = host::file_name(&inspect.component);
    let component = host::load(&host, &file, load).await?;
    let report = report(file, &component);
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
        sanitized: component.definitions().iter().map(ToolDefinition::hidden_chars).sum(),
        skipped: component.skipped(),
    }
}
