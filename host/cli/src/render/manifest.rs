//! The parts that an approval pins: as a summary for a decision, and in full.

use anyhow::Result;
use fumehood::Untrusted;
use fumehood::approval::{self, LibraryItem, LibraryKind, Manifest, ToolManifest};
use fumehood::limits::display_bytes;

use super::approval::Origin;
use super::component::{declared_effect, describe_pinned_annotations, format_grant, print_imports, summarize_imports};
use super::quotation::{Quotation, one_line, write_host_text};
use super::schema::{argument_names, describe_schema};
use super::{GOOD, line, styled};

/// Length of the beginning of a digest in a summary, with its `sha256:`, in characters.
const SHORT_DIGEST_CHARS: usize = 19;
/// Maximum number of statements of a signer in a summary.
const MAX_STATEMENTS: usize = 6;

/// Prints what an approval pins: with `--full` all of it, otherwise what a decision needs, with one line for each tool.
pub(super) fn print_manifest(quotation: &mut Quotation, origin: &Origin, parts: &Manifest) -> Result<()> {
    match origin {
        Origin::File { file, component, .. } => {
            quotation.write_labelled("  component  ", file)?;
            let digest = component.digest().to_string();
            let size = display_bytes(component.size() as u64);
            if quotation.is_full() {
                quotation.write_fact("  digest     ", &digest)?;
                quotation.write_fact("  size       ", &size)?;
            } else {
                let beginning: String = digest.chars().take(SHORT_DIGEST_CHARS).collect();
                quotation.write_fact("  size       ", &format!("{size}, {beginning}…"))?;
            }
            quotation.write_fact("  contract   ", &describe_contract(&parts.contract))?;
            print_origin(quotation, parts.origin.as_ref())?;
            if quotation.is_full() {
                line("  imports")?;
                print_imports(component.imports())?;
            } else {
                write_host_text(2, &format!("imports    {}", summarize_imports(component.imports())))?;
            }
        }
        Origin::Server => write_host_text(2, "from       an MCP server; the effects of its tools are unknown")?,
    }
    line("  granted")?;
    if parts.grants.is_empty() {
        write_host_text(4, "nothing: it can only compute")?;
    }
    for grant in &parts.grants {
        quotation.write_block(4, &format_grant(grant))?;
    }
    if let Some(wishes) = origin.wishes() {
        wishes.print(quotation)?;
    }
    if !quotation.is_full() {
        return summarize_texts(quotation, parts);
    }
    if let Some(instructions) = &parts.instructions {
        line("  tells models")?;
        quotation.write_block(4, &instructions.to_sanitized())?;
    }
    parts.tools.iter().try_for_each(|it| print_tool(quotation, it))?;
    parts.library.iter().try_for_each(|it| print_library_item(quotation, it))
}

/// Prints the beginning of each text that models read: one line for each tool.
fn summarize_texts(quotation: &mut Quotation, parts: &Manifest) -> Result<()> {
    if let Some(instructions) = &parts.instructions {
        quotation.write_beginning("  to models  ", &one_line(&instructions.to_sanitized()))?;
    }
    if !parts.tools.is_empty() {
        write_host_text(2, &format!("tools      {}, each with the effects that it declares", parts.tools.len()))?;
    }
    for tool in &parts.tools {
        let arguments = tool.input_schema.parse_json().map(|schema| argument_names(&schema.to_sanitized()));
        let arguments = arguments.unwrap_or_default().join(", ");
        let about = tool.description.to_sanitized();
        let text = one_line(&format!("{}({arguments}) — {about}", tool.name));
        quotation.write_beginning(&format!("    {:11}  ", declared_effect(&tool.annotations)), &text)?;
    }
    for item in &parts.library {
        match item.kind {
            LibraryKind::Resources => print_library_item(quotation, item)?,
            kind => {
                quotation.write_beginning(&format!("    {}  ", kind.as_str()), &one_line(&item.name.to_sanitized()))?
            }
        }
    }
    if parts.tools.is_empty() && parts.library.is_empty() && parts.instructions.is_none() {
        return Ok(());
    }
    write_host_text(2, "texts for models are shortened; `--full` shows all of them")
}

/// Prints a prompt or a resource template, or that there are resources.
fn print_library_item(quotation: &mut Quotation, item: &LibraryItem) -> Result<()> {
    if item.kind == LibraryKind::Resources {
        return write_host_text(2, "resources  all of the server's resources, now and later");
    }
    line("")?;
    line(&format!("  {}", item.kind.as_str()))?;
    quotation.write_block(4, &item.name.to_sanitized())?;
    quotation.write_block(4, &item.definition.to_sanitized())
}

/// Prints the signer of a published component, and what the signer states.
fn print_origin(quotation: &mut Quotation, origin: Option<&approval::Origin>) -> Result<()> {
    let Some(origin) = origin else { return write_host_text(2, "signature  none: it is a file on this machine") };
    let Some(signer) = &origin.signer else {
        return write_host_text(2, "signature  not verified");
    };
    line(&format!("  signature  {} by the key", styled(GOOD, "verified")))?;
    write_host_text(4, signer)?;
    if origin.provenance.is_empty() {
        return Ok(());
    }
    line("    which states")?;
    let max = if quotation.is_full() { usize::MAX } else { MAX_STATEMENTS };
    origin.provenance.iter().take(max).try_for_each(|stated| quotation.write_block(6, stated))?;
    quotation.leave_out(origin.provenance.len().saturating_sub(max));
    Ok(())
}

fn describe_contract(version: &str) -> String {
    match version {
        "typed" => "typed functions; names and schemas come from their types".to_owned(),
        version => match version.strip_prefix("hook ") {
            Some(version) => {
                format!("fumehood:hooks {}; it sees calls and results, and may change them", one_line(version))
            }
            None => format!("fumehood:tool {}", one_line(version)),
        },
    }
}

fn print_tool(quotation: &mut Quotation, tool: &ToolManifest) -> Result<()> {
    line("")?;
    quotation.write_labelled("  tool       ", &tool.name)?;
    let texts = [
        ("is the export", tool.export.as_ref()),
        ("title", tool.title.as_ref()),
        ("description", Some(&tool.description)),
        ("icons and metadata", tool.mcp_members.as_ref()),
    ];
    for (what, text) in texts {
        if let Some(text) = text {
            line(&format!("    {what}"))?;
            quotation.write_block(6, &text.to_sanitized())?;
        }
    }
    line("    declares")?;
    for promise in describe_pinned_annotations(&tool.annotations) {
        write_host_text(6, &promise)?;
    }
    print_schema(quotation, "arguments", &tool.input_schema)?;
    match &tool.output_schema {
        Some(described) => print_schema(quotation, "result", described),
        None => write_host_text(4, "result: not described"),
    }
}

/// Prints a schema as `inspect` does, and then as it is, because a model reads all of its texts.
fn print_schema(quotation: &mut Quotation, what: &str, text: &Untrusted<String>) -> Result<()> {
    line(&format!("    {what}"))?;
    let Some(schema) = text.parse_json() else { return quotation.write_block(6, &text.to_sanitized()) };
    let schema = schema.to_sanitized();
    let shown = describe_schema(&schema);
    if shown.is_empty() {
        line("      none")?
    } else {
        quotation.write_block(6, &shown.join("\n"))?
    }
    line("      as JSON Schema")?;
    quotation.write_block(8, &serde_json::to_string_pretty(&schema)?)
}
