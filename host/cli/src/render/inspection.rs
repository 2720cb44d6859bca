//! The report of `inspect`.

use anyhow::Result;
use fumehood::limits::display_bytes;
use fumehood::{Annotations, Dialect, Import, Skipped, ToolDefinition};
use serde::Serialize;

use super::paragraph::{one_line, paragraphs};
use super::quotation::{Quotation, own};
use super::schema::lines;
use super::{STRONG, annotations, imports, line, styled};

/// Everything that is known of a component.
#[derive(Serialize)]
pub(crate) struct Report<'a> {
    pub(crate) file: String,
    pub(crate) digest: String,
    pub(crate) bytes: usize,
    pub(crate) dialect: &'a Dialect,
    pub(crate) accepted_contract: &'static str,
    pub(crate) producers: &'a [(String, Vec<String>)],
    pub(crate) imports: &'a [Import],
    pub(crate) powers: Vec<&'static str>,
    pub(crate) tools: &'a [ToolDefinition],
    /// Characters of what the tools say about themselves that nobody would see or that a terminal would act on.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) sanitized: u64,
    pub(crate) skipped: &'a [Skipped],
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Prints everything that is known of a component. `full` shows every line of every text.
pub(crate) fn inspection(report: &Report<'_>, full: bool) -> Result<()> {
    let mut quotation = Quotation::new(full);
    own(0, &report.file)?;
    facts(report, &mut quotation)?;
    line("")?;
    line(&styled(STRONG, "What it imports"))?;
    imports::with_names(report.imports, &mut quotation)?;
    line("")?;
    line(&styled(STRONG, &format!("Tools ({})", report.tools.len())))?;
    report.tools.iter().try_for_each(|it| tool(it, &mut quotation))?;
    if !report.skipped.is_empty() {
        line("")?;
        line(&styled(STRONG, "Exports that are not tools"))?;
        for skipped in report.skipped {
            quotation.block(2, &one_line(&format!("{}: {}", skipped.export, skipped.why)))?;
        }
    }
    match quotation.left_out() {
        0 => Ok(()),
        lines => own(0, &format!("{lines} lines are not shown; `--full` shows them")),
    }
}

fn facts(report: &Report<'_>, quotation: &mut Quotation) -> Result<()> {
    quotation.fact("  digest   ", &report.digest)?;
    quotation.fact("  size     ", &display_bytes(report.bytes as u64))?;
    quotation.fact("  dialect  ", &dialect(report))?;
    for (field, values) in report.producers {
        quotation.labelled("  made by  ", &one_line(&format!("{field}: {}", values.join(", "))))?;
    }
    Ok(())
}

fn dialect(report: &Report<'_>) -> String {
    match report.dialect {
        Dialect::Contract(version) => {
            format!("fumehood:tool {version} (this host accepts {})", report.accepted_contract)
        }
        Dialect::Typed => "plain typed functions; names and schemas come from their types".to_owned(),
    }
}

fn tool(tool: &ToolDefinition, quotation: &mut Quotation) -> Result<()> {
    line("")?;
    quotation.labelled("  tool   ", tool.name.as_str())?;
    // Of an export of the world itself, the name says it already.
    if let Some(export) = tool.export.as_ref().filter(|export| **export != *tool.name.as_str()) {
        quotation.labelled("  export ", &one_line(&export.to_sanitized()))?;
    }
    if let Some(title) = &tool.title {
        quotation.labelled("  title  ", &one_line(&title.to_sanitized()))?;
    }
    // All of it: what a model is told, whoever inspects a tool has to see.
    quotation.block(4, &paragraphs(&tool.description.to_sanitized()).join("\n"))?;
    let hidden = tool.hidden_chars();
    if hidden > 0 {
        own(4, &format!("{hidden} invisible or controlling characters of these texts were written out"))?;
    }
    if tool.annotations != Annotations::default() {
        line("    says of itself")?;
        annotations::in_words(&tool.annotations).iter().try_for_each(|promise| own(6, promise))?;
    }
    line("    arguments")?;
    let arguments = lines(&tool.input_schema.to_sanitized());
    match arguments.is_empty() {
        true => line("      none")?,
        false => quotation.block(6, &arguments.join("\n"))?,
    }
    if let Some(schema) = &tool.output_schema {
        line("    result")?;
        quotation.block(6, &lines(&schema.to_sanitized()).join("\n"))?;
    }
    Ok(())
}
