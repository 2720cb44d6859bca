//! The report of `fumehood inspect`.

use std::collections::BTreeSet;

use anyhow::Result;
use fumehood::limits::display_bytes;
use fumehood::permission::Power;
use fumehood::{Annotations, Dialect, Import, ResourceDefinition, Skipped, ToolDefinition, ToolName};
use serde::Serialize;

use super::component::{describe_annotations, print_imports_with_names};
use super::quotation::{Quotation, one_line, paragraphs, write_host_text};
use super::schema::describe_schema;
use super::{STRONG, WishReport, line, styled};

/// Everything that is known about a component.
#[derive(Serialize)]
pub(crate) struct Report<'a> {
    pub(crate) file: String,
    pub(crate) digest: String,
    pub(crate) bytes: usize,
    pub(crate) dialect: &'a Dialect,
    pub(crate) accepted_contract: &'static str,
    pub(crate) producers: &'a [(String, Vec<String>)],
    pub(crate) imports: &'a [Import],
    pub(crate) powers: Vec<Power>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wishes: Option<WishReport>,
    pub(crate) tools: &'a [ToolDefinition],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) resources: &'a [ResourceDefinition],
    /// Number of invisible or controlling characters in the texts of the tools and resources.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) sanitized: u64,
    pub(crate) skipped: &'a [Skipped],
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Prints everything that is known about a component. `full` shows every line of every text.
pub(crate) fn inspection(report: &Report<'_>, full: bool) -> Result<()> {
    let mut quotation = Quotation::new(full);
    write_host_text(0, &report.file)?;
    print_facts(report, &mut quotation)?;
    line("")?;
    line(&styled(STRONG, "Imports"))?;
    print_imports_with_names(report.imports, &mut quotation)?;
    line("")?;
    if let Some(wishes) = &report.wishes {
        wishes.print(&mut quotation)?;
        line("")?;
    }
    let heading = if matches!(report.dialect, Dialect::Hook(_)) { "Functions" } else { "Tools" };
    line(&styled(STRONG, &format!("{heading} ({})", report.tools.len())))?;
    report.tools.iter().try_for_each(|it| print_tool(it, &mut quotation))?;
    if !report.resources.is_empty() {
        line("")?;
        line(&styled(STRONG, &format!("Resources ({})", report.resources.len())))?;
        report.resources.iter().try_for_each(|it| print_resource(it, &mut quotation))?;
    }
    if !report.skipped.is_empty() {
        line("")?;
        line(&styled(STRONG, "Exports that are not tools"))?;
        for skipped in report.skipped {
            quotation.write_block(2, &one_line(&format!("{}: {}", skipped.export, skipped.why)))?;
        }
    }
    match quotation.left_out() {
        0 => Ok(()),
        lines => write_host_text(0, &format!("{lines} lines are not shown; `--full` shows them")),
    }
}

fn print_facts(report: &Report<'_>, quotation: &mut Quotation) -> Result<()> {
    quotation.write_fact("  digest   ", &report.digest)?;
    quotation.write_fact("  size     ", &display_bytes(report.bytes as u64))?;
    quotation.write_fact("  dialect  ", &describe_dialect(report))?;
    for (field, values) in report.producers {
        quotation.write_labelled("  made by  ", &one_line(&format!("{field}: {}", values.join(", "))))?;
    }
    Ok(())
}

fn describe_dialect(report: &Report<'_>) -> String {
    match report.dialect {
        Dialect::Contract(version) => {
            format!("fumehood:tool {version} (this host accepts {})", report.accepted_contract)
        }
        Dialect::Typed => "typed functions; names and schemas come from their types".to_owned(),
        Dialect::Command(version) => format!("a program of wasi:cli/command {version}; its tool runs a command line"),
        Dialect::Hook(version) => {
            format!("fumehood:hooks {version}: a hook, which sees calls of tools; it has no tools")
        }
    }
}

fn print_resource(resource: &ResourceDefinition, quotation: &mut Quotation) -> Result<()> {
    line("")?;
    quotation.write_labelled("  uri    ", &resource.uri)?;
    quotation.write_labelled("  name   ", &one_line(&resource.name.to_sanitized()))?;
    if let Some(title) = &resource.title {
        quotation.write_labelled("  title  ", &one_line(&title.to_sanitized()))?;
    }
    if let Some(mime_type) = &resource.mime_type {
        quotation.write_labelled("  type   ", mime_type)?;
    }
    if let Some(description) = &resource.description {
        quotation.write_block(4, &paragraphs(&description.to_sanitized()).join("\n"))?;
    }
    let Some(page) = &resource.page else { return Ok(()) };
    let tools: Vec<&str> = page.tools.iter().map(ToolName::as_str).collect();
    let shows = if tools.is_empty() { "no tool".to_owned() } else { tools.join(", ") };
    line("    is a page that clients show with `apps = true`")?;
    quotation.write_block(6, &format!("for the results of {shows}"))?;
    let lists = [&page.connect_domains, &page.resource_domains, &page.frame_domains, &page.base_uri_domains];
    let origins: BTreeSet<&str> = lists.into_iter().flatten().map(String::as_str).collect();
    origins.into_iter().try_for_each(|origin| quotation.write_block(6, &format!("asks to reach {origin}")))
}

fn print_tool(tool: &ToolDefinition, quotation: &mut Quotation) -> Result<()> {
    line("")?;
    quotation.write_labelled("  tool   ", tool.name.as_str())?;
    // The name of an export of the world itself is that of the tool.
    if let Some(export) = tool.export.as_ref().filter(|export| **export != *tool.name.as_str()) {
        quotation.write_labelled("  export ", &one_line(&export.to_sanitized()))?;
    }
    if let Some(title) = &tool.title {
        quotation.write_labelled("  title  ", &one_line(&title.to_sanitized()))?;
    }
    // All of it: a model reads the whole description.
    quotation.write_block(4, &paragraphs(&tool.description.to_sanitized()).join("\n"))?;
    let hidden = tool.hidden_chars();
    if hidden > 0 {
        write_host_text(4, &format!("{hidden} invisible or control characters in these texts are shown as escapes"))?;
    }
    if tool.annotations != Annotations::default() {
        line("    declares")?;
        describe_annotations(&tool.annotations).iter().try_for_each(|promise| write_host_text(6, promise))?;
    }
    line("    arguments")?;
    let arguments = describe_schema(&tool.input_schema.to_sanitized());
    if arguments.is_empty() {
        line("      none")?
    } else {
        quotation.write_block(6, &arguments.join("\n"))?
    }
    if let Some(schema) = &tool.output_schema {
        line("    result")?;
        quotation.write_block(6, &describe_schema(&schema.to_sanitized()).join("\n"))?;
    }
    Ok(())
}
