//! The screen of `fumehood approve`: a summary of what is pinned, or the changes since the approval, old beside new.

use anyhow::Result;
use fumehood::approval::{ApprovalStatus, Change, Manifest, ToolManifest};
use fumehood::settings::Wishes;
use fumehood::{ApprovalCheck, Component, Untrusted};

use super::component::{format_grant, summarize_imports};
use super::manifest::print_manifest;
use super::quotation::{Quotation, one_line, write_host_text};
use super::schema::describe_schema;
use super::{BAD, FAINT, GOOD, STRONG, WishReport, line, styled};

/// Number of lines that `--full` shows before and after a change.
const CONTEXT_LINES: usize = 2;
/// Number of lines after which `--full` is needed for more changes. Those of grants are always shown.
const MAX_CHANGED_ROWS: usize = 16;
/// Maximum number of lines of one change without `--full`.
const MAX_ROWS_OF_CHANGE: usize = 6;
/// Maximum number of lines on the screen of one line of a change without `--full`.
const MAX_ROWS_OF_LINE: usize = 3;

/// Name of a change of a grant.
const GRANT: &str = "grant";

/// Origin of tools that need approval.
pub(crate) enum Origin {
    /// A file, with the component in it.
    File {
        /// Its name or reference.
        file: String,
        /// The component.
        component: Component,
        /// The wishes of the approved version, if that is known.
        approved_wishes: Option<Box<Wishes>>,
    },
    /// An MCP server: what its tools do is not known.
    Server,
}

impl Origin {
    /// Returns the wishes of the author; `None` if there are none.
    pub(crate) fn wishes(&self) -> Option<WishReport> {
        match self {
            Self::File { component, .. } => WishReport::read(component),
            Self::Server => None,
        }
    }
}

/// Prints what a person decides on: the component, its signer, its powers and its tools, or the changes since the last
/// approval. `full` shows every line of every text.
pub(crate) fn approval(name: &str, origin: &Origin, check: &ApprovalCheck, full: bool) -> Result<()> {
    let mut quotation = Quotation::new(full);
    let hidden = match check.standing() {
        ApprovalStatus::Approved => {
            print_heading(&mut quotation, &styled(GOOD, "✓"), name, "is approved")?;
            if !full {
                return Ok(());
            }
            print_manifest(&mut quotation, origin, check.parts())?;
            count_hidden_in_parts(check.parts())
        }
        ApprovalStatus::NeverApproved => {
            print_heading(&mut quotation, &styled(BAD, "!"), name, "was never approved")?;
            print_manifest(&mut quotation, origin, check.parts())?;
            count_hidden_in_parts(check.parts())
        }
        ApprovalStatus::Proposed(changes) if changes.is_empty() => {
            print_heading(&mut quotation, &styled(BAD, "!"), name, "was approved by another person, but not by you")?;
            print_manifest(&mut quotation, origin, check.parts())?;
            count_hidden_in_parts(check.parts())
        }
        ApprovalStatus::Changed(changes) | ApprovalStatus::Proposed(changes) => {
            print_heading(&mut quotation, &styled(BAD, "!"), name, "changed since it was approved")?;
            print_changes(&mut quotation, changes)?;
            print_changed_imports(&mut quotation, origin, changes)?;
            changes.iter().flat_map(|it| [&it.old, &it.new]).flatten().map(Untrusted::<String>::hidden_chars).sum()
        }
    };
    if hidden > 0 {
        write_host_text(2, &format!("{hidden} invisible or control characters in these texts are shown as escapes"))?;
    }
    match quotation.left_out() {
        0 => Ok(()),
        lines => {
            write_host_text(2, &format!("{lines} lines are not shown; review them with `--full` before you approve"))
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
fn print_changed_imports(quotation: &mut Quotation, origin: &Origin, changes: &[Change]) -> Result<()> {
    let Origin::File { component, approved_wishes, .. } = origin else { return Ok(()) };
    if !changes.iter().any(|it| it.what == "component") {
        return Ok(());
    }
    write_host_text(2, &format!("imports    {}", summarize_imports(component.imports())))?;
    let wishes = origin.wishes();
    let wanted = wishes.as_ref().map(|wishes| wishes.wanted().clone()).unwrap_or_default();
    match approved_wishes {
        Some(approved) if **approved != wanted => {
            let [old, new] = [&**approved, &wanted].map(|wishes| Some(Untrusted::from(wishes.to_string())));
            let change = Change { what: "wishes of its author, which grant nothing".to_owned(), old, new };
            print_change(quotation, &change, usize::MAX)?;
        }
        _ => wishes.map_or(Ok(()), |wishes| wishes.print(quotation))?,
    }
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

/// Prints changes: without `--full` those of grants, and of the others as many as a screen takes.
fn print_changes(quotation: &mut Quotation, changes: &[Change]) -> Result<()> {
    let mut rest = Vec::new();
    for change in changes {
        if change.what == GRANT || quotation.is_full() {
            print_change(quotation, change, usize::MAX)?;
        } else if quotation.written() < MAX_CHANGED_ROWS {
            quotation.set_max_rows(MAX_ROWS_OF_LINE);
            print_change(quotation, change, MAX_ROWS_OF_CHANGE)?;
        } else {
            rest.push(one_line(&change.what));
        }
    }
    if rest.is_empty() {
        return Ok(());
    }
    quotation.leave_out(rest.len());
    write_host_text(2, &format!("{} more changes; `--full` shows them", rest.len()))?;
    quotation.write_block(4, &rest.join(", "))
}

fn print_change(quotation: &mut Quotation, change: &Change, max_rows: usize) -> Result<()> {
    let what = one_line(&change.what);
    // It may name a tool, so the terminal must not wrap it.
    if quotation.fits(&format!("  {what}")) {
        line(&format!("  {what}"))?
    } else {
        quotation.write_block(2, &what)?
    }
    let (old, new) = sides_of_change(change, quotation.is_full());
    let rows = diff_lines(&old, &new, if quotation.is_full() { CONTEXT_LINES } else { 0 });
    for (sign, text) in rows.iter().take(max_rows) {
        let style = match sign {
            '-' => BAD,
            '+' => GOOD,
            _ => FAINT,
        };
        quotation.write_signed(&format!("    {sign} "), style, text)?;
    }
    let hidden = rows.len().saturating_sub(max_rows);
    if hidden == 0 {
        return Ok(());
    }
    quotation.leave_out(hidden);
    write_host_text(4, &format!("… {hidden} more lines; `--full` shows them"))
}

/// Returns the lines of both sides of a change. Without `--full`, a schema is described, unless its description is the same
/// on both sides.
fn sides_of_change(change: &Change, full: bool) -> (Vec<String>, Vec<String>) {
    if change.what == GRANT {
        return sides(change, |text| to_lines(text).iter().map(|line| format_grant(line)).collect());
    }
    let described = sides(change, describe_schema_text);
    let is_schema = change.what.starts_with("input schema of ") || change.what.starts_with("output schema of ");
    if is_schema && !full && described.0 != described.1 { described } else { sides(change, to_lines) }
}

fn sides(change: &Change, to_lines: fn(&Untrusted<String>) -> Vec<String>) -> (Vec<String>, Vec<String>) {
    let old = change.old.as_ref().map(to_lines).unwrap_or_default();
    let new = change.new.as_ref().map(to_lines).unwrap_or_default();
    (old, new)
}

fn describe_schema_text(text: &Untrusted<String>) -> Vec<String> {
    text.parse_json().map_or_else(|| to_lines(text), |schema| describe_schema(&schema.to_sanitized()))
}

/// Splits a text into lines; a JSON object or list is indented first.
fn to_lines(text: &Untrusted<String>) -> Vec<String> {
    // Parsed before hidden characters are written out, because it may be no JSON afterwards.
    let json = text.parse_json().map(|value| value.to_sanitized().into_owned());
    let json = json.filter(|value| value.is_object() || value.is_array());
    let pretty = json.and_then(|value| serde_json::to_string_pretty(&value).ok());
    pretty.as_deref().unwrap_or(&text.to_sanitized()).lines().map(str::to_owned).collect()
}

/// Compares lines: returns removed and added ones between up to `context` lines of the common head and tail.
fn diff_lines<'a>(old: &'a [String], new: &'a [String], context: usize) -> Vec<(char, &'a str)> {
    let same_head = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let shorter = old.len().min(new.len()) - same_head;
    let same_tail = old.iter().rev().zip(new.iter().rev()).take(shorter).take_while(|(old, new)| old == new).count();
    let middle = |lines: &'a [String]| lines.iter().take(lines.len() - same_tail).skip(same_head);
    let before = old.iter().take(same_head).skip(same_head.saturating_sub(context));
    let after = old.iter().skip(old.len() - same_tail).take(context);
    before
        .map(|line| (' ', line.as_str()))
        .chain(middle(old).map(|line| ('-', line.as_str())))
        .chain(middle(new).map(|line| ('+', line.as_str())))
        .chain(after.map(|line| (' ', line.as_str())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_changes_with_a_few_lines_of_context() {
        fn check(old: &[&str], new: &[&str], expected: &str) {
            let [old, new] = [old, new].map(|lines| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
            let shown = diff_lines(&old, &new, CONTEXT_LINES)
                .iter()
                .map(|(sign, text)| format!("{sign}{text}"))
                .collect::<Vec<_>>();
            assert_eq!(shown.join(","), expected);
        }
        check(&["a"], &["b"], "-a,+b");
        check(&[], &["b"], "+b");
        check(&["1", "2", "3", "x", "4", "5", "6"], &["1", "2", "3", "y", "z", "4", "5", "6"], " 2, 3,-x,+y,+z, 4, 5");
        check(&["a", "a"], &["a", "a", "a"], " a, a,+a");
        check(&["a", "b", "b"], &["a", "b"], " a, b,-b");
    }

    #[test]
    fn splits_json_into_lines() {
        assert_eq!(to_lines(&r#"{"a":1}"#.into()), ["{", "  \"a\": 1", "}"]);
        assert_eq!(to_lines(&"{\"a\":\"\u{202e}\"}".into()), ["{", "  \"a\": \"\\\\u{202e}\"", "}"]);
        assert_eq!(to_lines(&"[no json".into()), ["[no json"]);
    }
}
