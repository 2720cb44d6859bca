//! What `inspect` shows.

use anyhow::Result;
use fumehood::limits::display_bytes;
use fumehood::{Annotations, Dialect, Import, Skipped, ToolDefinition};
use serde::Serialize;

use super::paragraph::{self, one_line, paragraphs, wrapped};
use super::schema::lines;
use super::{BAD, FAINT, GOOD, STRONG, line, styled};

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

/// Prints everything that is known of a component.
pub(crate) fn inspection(report: &Report<'_>) -> Result<()> {
    line(&styled(STRONG, &report.file))?;
    facts(report)?;
    line("")?;
    powers(report)?;
    line("")?;
    line(&styled(STRONG, &format!("Tools ({})", report.tools.len())))?;
    report.tools.iter().try_for_each(tool)?;
    if !report.skipped.is_empty() {
        line("")?;
        line(&styled(STRONG, "Exports that are not tools"))?;
        for skipped in report.skipped {
            text(2, 2, &one_line(&format!("{}: {}", skipped.export, skipped.why)))?;
        }
    }
    Ok(())
}

/// A line of text, or as many as it takes on a terminal.
fn text(indent: usize, hanging: usize, text: &str) -> Result<()> {
    let lines = wrapped(text, indent, hanging, paragraph::width());
    lines.iter().try_for_each(|text| line(text))
}

fn facts(report: &Report<'_>) -> Result<()> {
    let mut facts = vec![
        ("digest".to_owned(), report.digest.clone()),
        ("size".to_owned(), display_bytes(report.bytes as u64)),
        ("dialect".to_owned(), dialect(report)),
    ];
    for (field, values) in report.producers {
        facts.push((one_line(field), one_line(&values.join(", "))));
    }
    let widest = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    facts.iter().try_for_each(|(name, value)| line(&format!("  {name:<widest$}  {value}")))
}

fn dialect(report: &Report<'_>) -> String {
    match report.dialect {
        Dialect::Contract(version) => {
            format!("fumehood:tool {version} (this host accepts {})", report.accepted_contract)
        }
        Dialect::Typed => "plain typed functions; names and schemas come from their types".to_owned(),
    }
}

/// Every import in words: first what it can do at once, then what somebody would have to grant.
fn powers(report: &Report<'_>) -> Result<()> {
    line(&styled(STRONG, "What it could do"))?;
    if report.imports.is_empty() {
        return line("  compute, and nothing else: it imports nothing");
    }
    let free: Vec<&Import> = report.imports.iter().filter(|import| import.power.is_none()).collect();
    if !free.is_empty() {
        line("  without any grant")?;
        meanings(&free)?;
    }
    for power in &report.powers {
        let needing = |import: &&Import| import.power == Some(power);
        let imports: Vec<&Import> = report.imports.iter().filter(needing).collect();
        line(&format!("  only with a grant of `{}`", styled(BAD, power)))?;
        meanings(&imports)?;
    }
    if report.powers.is_empty() {
        line(&format!("  {}", styled(GOOD, "and no more than that: there is nothing to grant")))?;
    }
    Ok(())
}

/// Each meaning once, with the interfaces that it stands for.
fn meanings(imports: &[&Import]) -> Result<()> {
    let widest = imports.iter().map(|import| import.meaning.chars().count()).max().unwrap_or_default();
    let mut told: Vec<&str> = Vec::new();
    for import in imports {
        if told.contains(&import.meaning) {
            continue;
        }
        told.push(import.meaning);
        let mut left = import.meaning;
        for same in imports.iter().filter(|other| other.meaning == import.meaning) {
            let name = styled(FAINT, &one_line(&same.name));
            line(&format!("    {left:<widest$}  {name}"))?;
            left = "";
        }
    }
    Ok(())
}

fn tool(tool: &ToolDefinition) -> Result<()> {
    line("")?;
    let title = tool.title.as_deref().map_or_else(String::new, |title| format!(" ({})", one_line(title)));
    line(&format!("  {}{title}", styled(STRONG, tool.name.as_str())))?;
    // Of an export of the world itself, the name says it already.
    if let Some(export) = tool.export.as_ref().filter(|export| *export != tool.name.as_str()) {
        line(&format!("    {}", styled(FAINT, &one_line(export))))?;
    }
    // All of it: what a model is told, whoever inspects a tool has to see.
    for paragraph in paragraphs(&tool.description) {
        text(4, 0, &paragraph)?;
    }
    let hidden = tool.hidden();
    if hidden > 0 {
        let what = format!("{hidden} invisible or controlling characters of these texts were written out");
        text(4, 0, &what)?;
    }
    let promises = promises(&tool.annotations);
    if !promises.is_empty() {
        line(&format!("    says that it is: {}", promises.join(", ")))?;
    }
    line("    arguments")?;
    let arguments = lines(&tool.input_schema);
    if arguments.is_empty() {
        line("      none")?;
    }
    arguments.iter().try_for_each(|argument| text(6, 4, argument))?;
    if let Some(schema) = &tool.output_schema {
        line("    result")?;
        lines(schema).iter().try_for_each(|part| text(6, 4, part))?;
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
