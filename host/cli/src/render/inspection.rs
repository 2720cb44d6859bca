//! What `inspect` shows.

use anyhow::Result;
use fumehood::limits::display_bytes;
use fumehood::sanitize::printable;
use fumehood::{Annotations, Dialect, ToolDefinition};

use super::schema::{first_line, lines};
use super::{BAD, FAINT, GOOD, STRONG, line, styled};
use crate::commands::inspect::Report;

/// Prints everything that is known of a component.
pub(crate) fn inspection(report: &Report<'_>) -> Result<()> {
    line(&styled(STRONG, &report.file))?;
    line(&format!("  digest    {}", report.digest))?;
    line(&format!("  size      {}", display_bytes(report.bytes as u64)))?;
    line(&format!("  dialect   {}", dialect(report)))?;
    for (field, values) in report.producers {
        line(&format!("  {:<9} {}", printable(field), values.join(", ")))?;
    }
    line("")?;
    powers(report)?;
    line("")?;
    line(&styled(STRONG, &format!("Tools ({})", report.tools.len())))?;
    report.tools.iter().try_for_each(tool)?;
    if !report.skipped.is_empty() {
        line("")?;
        line(&styled(STRONG, "Exports that are not tools"))?;
        for skipped in report.skipped {
            line(&format!(
                "  {}: {}",
                printable(&skipped.export),
                printable(&skipped.why)
            ))?;
        }
    }
    Ok(())
}

fn dialect(report: &Report<'_>) -> String {
    match report.dialect {
        Dialect::Contract(version) => {
            format!(
                "fumehood:tool {version} (this host accepts {})",
                report.accepted_contract
            )
        }
        Dialect::Typed => "plain typed functions; names and schemas come from their types".to_owned(),
    }
}

fn powers(report: &Report<'_>) -> Result<()> {
    line(&styled(STRONG, "What it could do"))?;
    if report.imports.is_empty() {
        return line("  compute, and nothing else: it imports nothing");
    }
    for import in report.imports {
        let (mark, style) = if import.power.is_some() {
            ("only if granted", BAD)
        } else {
            ("always", FAINT)
        };
        let name = printable(&import.name);
        line(&format!(
            "  {:<52} {:<16} {}",
            import.meaning,
            styled(style, mark),
            styled(FAINT, &name)
        ))?;
    }
    let powers = match report.powers.as_slice() {
        [] => styled(GOOD, "none"),
        powers => powers.join(", "),
    };
    line(&format!("  powers that it would need a grant for: {powers}"))
}

fn tool(tool: &ToolDefinition) -> Result<()> {
    line("")?;
    let title = tool
        .title
        .as_deref()
        .map_or_else(String::new, |title| format!(" ({})", printable(title)));
    line(&format!("  {}{title}", styled(STRONG, tool.name.as_str())))?;
    if let Some(export) = &tool.export {
        line(&format!("    {}", styled(FAINT, &printable(export))))?;
    }
    line(&format!("    {}", first_line(&tool.description)))?;
    let promises = promises(&tool.annotations);
    if !promises.is_empty() {
        line(&format!("    says that it is: {}", promises.join(", ")))?;
    }
    line("    arguments")?;
    let arguments = lines(&tool.input_schema);
    if arguments.is_empty() {
        line("      none")?;
    }
    arguments.iter().try_for_each(|text| line(&format!("      {text}")))?;
    if let Some(schema) = &tool.output_schema {
        line("    result")?;
        lines(schema)
            .iter()
            .try_for_each(|text| line(&format!("      {text}")))?;
    }
    Ok(())
}

fn promises(annotations: &Annotations) -> Vec<&'static str> {
    let say =
        |value: Option<bool>, yes: &'static str, no: &'static str| value.map(|value| if value { yes } else { no });
    [
        say(annotations.read_only, "read-only", "not read-only"),
        say(annotations.destructive, "destructive", "not destructive"),
        say(annotations.idempotent, "idempotent", "not idempotent"),
        say(annotations.open_world, "open-world", "closed-world"),
    ]
    .into_iter()
    .flatten()
    .collect()
}
