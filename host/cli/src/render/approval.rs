//! The screen of `fumehood approve`: everything that is pinned, or the changes since the approval, old beside new.

use anyhow::Result;
use fumehood::approval::{self, ApprovalStatus, Change, LibraryItem, LibraryKind, Manifest, ToolManifest};
use fumehood::limits::display_bytes;
use fumehood::{ApprovalCheck, Component, Untrusted};

use super::component::{describe_pinned_annotations, format_grant, print_imports};
use super::quotation::{Quotation, one_line, write_host_text};
use super::schema::describe_schema;
use super::schema_remainder::remainder;
use super::{BAD, FAINT, GOOD, STRONG, line, styled};

/// Number of lines that are shown before and after a change.
const CONTEXT_LINES: usize = 2;

/// Origin of tools that need approval.
pub(crate) enum Origin {
    /// A file, with the component in it.
    File(String, Component),
    /// An MCP server: what its tools do is not known.
    Server,
}

/// Prints everything that a person has to see before approving. `full` shows every line of every text.
pub(crate) fn approval(name: &str, origin: &Origin, check: &ApprovalCheck, full: bool) -> Result<()> {
    let mut quotation = Quotation::new(full);
    let hidden = match check.standing() {
        ApprovalStatus::Approved => return print_heading(&mut quotation, &styled(GOOD, "✓"), name, "is approved"),
        ApprovalStatus::NeverApproved => {
            print_heading(&mut quotation, &styled(BAD, "!"), name, "was never approved")?;
            print_manifest(&mut quotation, origin, check.parts())?;
            count_hidden_in_parts(check.parts())
        }
        ApprovalStatus::Proposed(changes) if changes.is_empty() => {
            print_heading(&mut quotation, &styled(BAD, "!"), name, "was approved by somebody else, and not by you")?;
            print_manifest(&mut quotation, origin, check.parts())?;
            count_hidden_in_parts(check.parts())
        }
        ApprovalStatus::Changed(changes) | ApprovalStatus::Proposed(changes) => {
            print_heading(&mut quotation, &styled(BAD, "!"), name, "changed since it was approved")?;
            changes.iter().try_for_each(|it| print_change(&mut quotation, it))?;
            print_changed_imports(origin, changes)?;
            changes.iter().flat_map(|it| [&it.old, &it.new]).flatten().map(Untrusted::<String>::hidden_chars).sum()
        }
    };
    if hidden > 0 {
        write_host_text(2, &format!("{hidden} invisible or controlling characters of these texts were written out"))?;
    }
    match quotation.left_out() {
        0 => Ok(()),
        lines => {
            write_host_text(2, &format!("{lines} lines are not shown; look at them with `--full` before you approve"))
        }
    }
}

/// Prints the command or address of a server, before its first use or after a change.
pub(crate) fn server_entry(name: &str, old: Option<&[String]>, new: &[String]) -> Result<()> {
    let mut quotation = Quotation::new(true);
    let what = if old.is_some() { "changed since it was approved" } else { "was never approved" };
    let status = format!("is a server whose command or address {what}");
    print_heading(&mut quotation, &styled(BAD, "!"), name, &status)?;
    let old = old.unwrap_or_default();
    for gone in old.iter().filter(|gone| !new.contains(gone)) {
        quotation.write_signed("    - ", BAD, gone)?;
    }
    for text in new {
        let (label, style) = if old.contains(text) { ("      ", FAINT) } else { ("    + ", GOOD) };
        quotation.write_signed(label, style, text)?;
    }
    Ok(())
}

/// Prints the imports of a component whose bytes changed, because a comparison of bytes does not show what they do.
fn print_changed_imports(origin: &Origin, changes: &[Change]) -> Result<()> {
    let Origin::File(_, component) = origin else { return Ok(()) };
    if !changes.iter().any(|it| it.what == "component") {
        return Ok(());
    }
    line("  imports now")?;
    print_imports(component.imports())?;
    match changes {
        [_] => write_host_text(2, "tools, texts and grants unchanged"),
        _ => Ok(()),
    }
}

/// Prints a heading on one line if it fits. Otherwise the name stands behind the bar, so that the terminal does not
/// wrap it.
fn print_heading(quotation: &mut Quotation, mark: &str, name: &str, status: &str) -> Result<()> {
    if quotation.fits(&format!("! {name} {status}")) {
        return line(&format!("{mark} {} {status}", styled(STRONG, name)));
    }
    line(&format!("{mark} {status}"))?;
    quotation.write_block(2, name)
}

/// Counts the invisible or controlling characters in all texts that an approval pins.
fn count_hidden_in_parts(parts: &Manifest) -> u64 {
    let library = parts.library.iter().flat_map(|item| [&item.name, &item.definition]);
    let library: u64 = library.map(Untrusted::<String>::hidden_chars).sum();
    library + parts.tools.iter().map(count_hidden).sum::<u64>()
}

/// Counts the invisible or controlling characters in the texts of a tool.
fn count_hidden(tool: &ToolManifest) -> u64 {
    let texts = [tool.export.as_ref(), tool.title.as_ref(), Some(&tool.description), Some(&tool.input_schema)];
    texts
        .into_iter()
        .chain([tool.output_schema.as_ref(), tool.mcp_members.as_ref()])
        .flatten()
        .map(Untrusted::<String>::hidden_chars)
        .sum()
}

/// Prints everything that an approval pins.
fn print_manifest(quotation: &mut Quotation, origin: &Origin, parts: &Manifest) -> Result<()> {
    match origin {
        Origin::File(file, component) => {
            quotation.write_labelled("  component  ", file)?;
            quotation.write_fact("  digest     ", &component.digest().to_string())?;
            quotation.write_fact("  size       ", &display_bytes(component.size() as u64))?;
            quotation.write_fact("  contract   ", &describe_contract(&parts.contract))?;
            if let Some(origin) = &parts.origin {
                print_origin(quotation, origin)?;
            }
            line("  imports")?;
            print_imports(component.imports())?;
        }
        Origin::Server => write_host_text(2, "from       an MCP server: what its tools do is not known here")?,
    }
    line("  granted")?;
    if parts.grants.is_empty() {
        write_host_text(4, "nothing: it may compute, and nothing else")?;
    }
    for grant in &parts.grants {
        quotation.write_block(4, &format_grant(grant))?;
    }
    if let Some(instructions) = &parts.instructions {
        line("  tells models")?;
        quotation.write_block(4, &instructions.to_sanitized())?;
    }
    parts.tools.iter().try_for_each(|it| print_tool(quotation, it))?;
    parts.library.iter().try_for_each(|it| print_library_item(quotation, it))
}

/// Prints a prompt or a resource template, or that there are resources.
fn print_library_item(quotation: &mut Quotation, item: &LibraryItem) -> Result<()> {
    if item.kind == LibraryKind::Resources {
        return write_host_text(2, "resources  all that the server has, now and later");
    }
    line("")?;
    line(&format!("  {}", item.kind.as_str()))?;
    quotation.write_block(4, &item.name.to_sanitized())?;
    quotation.write_block(4, &item.definition.to_sanitized())
}

/// Prints the signer of a published component, and what the signer states.
fn print_origin(quotation: &mut Quotation, origin: &approval::Origin) -> Result<()> {
    let Some(signer) = &origin.signer else {
        return write_host_text(2, "signature  not verified: nobody vouches for these bytes");
    };
    line(&format!("  signature  {} by the key", styled(GOOD, "verified")))?;
    write_host_text(4, signer)?;
    if origin.provenance.is_empty() {
        return Ok(());
    }
    line("    which states")?;
    origin.provenance.iter().try_for_each(|stated| quotation.write_block(6, stated))
}

fn describe_contract(version: &str) -> String {
    match version {
        "typed" => "plain typed functions; names and schemas come from their types".to_owned(),
        version => format!("fumehood:tool {}", one_line(version)),
    }
}

fn print_tool(quotation: &mut Quotation, tool: &ToolManifest) -> Result<()> {
    line("")?;
    quotation.write_labelled("  tool       ", &tool.name)?;
    let mut text = |what: &str, text: Option<&Untrusted<String>>| match text {
        Some(text) => {
            line(&format!("    {what}"))?;
            quotation.write_block(6, &text.to_sanitized())
        }
        None => Ok(()),
    };
    text("is the export", tool.export.as_ref())?;
    text("title", tool.title.as_ref())?;
    text("description", Some(&tool.description))?;
    text("icons and metadata", tool.mcp_members.as_ref())?;
    line("    says of itself")?;
    for promise in describe_pinned_annotations(&tool.annotations) {
        write_host_text(6, &promise)?;
    }
    print_schema(quotation, "arguments", &tool.input_schema)?;
    match &tool.output_schema {
        Some(described) => print_schema(quotation, "result", described),
        None => write_host_text(4, "result: not described"),
    }
}

/// Prints a schema as `inspect` does, and all its other texts, because a model reads them too. `--full` adds the schema
/// itself.
fn print_schema(quotation: &mut Quotation, what: &str, text: &Untrusted<String>) -> Result<()> {
    line(&format!("    {what}"))?;
    let Some(schema) = text.parse_json() else { return quotation.write_block(6, &text.to_sanitized()) };
    let schema = schema.to_sanitized();
    let shown = describe_schema(&schema);
    match shown.is_empty() {
        true => line("      none")?,
        false => quotation.write_block(6, &shown.join("\n"))?,
    }
    let remainder = remainder(&schema, &shown);
    if !remainder.is_empty() {
        line("      which says besides")?;
        quotation.write_block(8, &remainder.join("\n"))?;
    }
    if quotation.is_full() {
        line("      as JSON Schema")?;
        quotation.write_block(8, &serde_json::to_string_pretty(&schema)?)?;
    }
    Ok(())
}

fn print_change(quotation: &mut Quotation, change: &Change) -> Result<()> {
    let what = one_line(&change.what);
    // It may name a tool, so the terminal must not wrap it.
    match quotation.fits(&format!("  {what}")) {
        true => line(&format!("  {what}"))?,
        false => quotation.write_block(2, &what)?,
    }
    let side = |text: Option<&Untrusted<String>>| match change.what.as_str() {
        "grant" => to_lines(text).iter().map(|line| format_grant(line)).collect(),
        _ => to_lines(text),
    };
    for (sign, text) in diff_lines(&side(change.old.as_ref()), &side(change.new.as_ref())) {
        let style = match sign {
            '-' => BAD,
            '+' => GOOD,
            _ => FAINT,
        };
        quotation.write_signed(&format!("    {sign} "), style, text)?;
    }
    Ok(())
}

/// Splits a text into lines; a JSON object or list is indented first.
fn to_lines(text: Option<&Untrusted<String>>) -> Vec<String> {
    let Some(text) = text else { return Vec::new() };
    // Parsed before hidden characters are written out, because it may be no JSON afterwards.
    let json = text.parse_json().map(|value| value.to_sanitized().into_owned());
    let json = json.filter(|value| value.is_object() || value.is_array());
    let pretty = json.and_then(|value| serde_json::to_string_pretty(&value).ok());
    pretty.as_deref().unwrap_or(&text.to_sanitized()).lines().map(str::to_owned).collect()
}

/// Compares lines: returns removed and added ones between up to [`CONTEXT_LINES`] of the common head and tail.
fn diff_lines<'a>(old: &'a [String], new: &'a [String]) -> Vec<(char, &'a str)> {
    let same_head = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let shorter = old.len().min(new.len()) - same_head;
    let same_tail = old.iter().rev().zip(new.iter().rev()).take(shorter).take_while(|(old, new)| old == new).count();
    let middle = |lines: &'a [String]| lines.iter().take(lines.len() - same_tail).skip(same_head);
    let before = old.iter().take(same_head).skip(same_head.saturating_sub(CONTEXT_LINES));
    let after = old.iter().skip(old.len() - same_tail).take(CONTEXT_LINES);
    let signed = |sign: char| move |text: &'a String| (sign, text.as_str());
    before
        .map(signed(' '))
        .chain(middle(old).map(signed('-')))
        .chain(middle(new).map(signed('+')))
        .chain(after.map(signed(' ')))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_changes_with_a_few_lines_of_context() {
        let check = |old: &[&str], new: &[&str], expected: &str| {
            let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
            let (old, new) = (lines(old), lines(new));
            let shown = diff_lines(&old, &new).iter().map(|(sign, text)| format!("{sign}{text}")).collect::<Vec<_>>();
            assert_eq!(shown.join(","), expected);
        };
        check(&["a"], &["b"], "-a,+b");
        check(&[], &["b"], "+b");
        check(&["1", "2", "3", "x", "4", "5", "6"], &["1", "2", "3", "y", "z", "4", "5", "6"], " 2, 3,-x,+y,+z, 4, 5");
        check(&["a", "a"], &["a", "a", "a"], " a, a,+a");
        check(&["a", "b", "b"], &["a", "b"], " a, b,-b");
    }

    #[test]
    fn splits_json_into_lines() {
        assert_eq!(to_lines(Some(&r#"{"a":1}"#.into())), ["{", "  \"a\": 1", "}"]);
        assert_eq!(to_lines(Some(&"{\"a\":\"\u{202e}\"}".into())), ["{", "  \"a\": \"\\\\u{202e}\"", "}"]);
        assert_eq!(to_lines(Some(&"[no json".into())), ["[no json"]);
        assert!(to_lines(None).is_empty());
    }
}
