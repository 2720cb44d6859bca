//! The screen of `approve`: all that is pinned, or the changes since, old beside new.

use anyhow::Result;
use fumehood::approval::{ApprovalStatus, Change, Manifest, ToolParts};
use fumehood::limits::display_bytes;
use fumehood::{ApprovalCheck, Component, Untrusted};

use super::quotation::{Quotation, own};
use super::{BAD, FAINT, GOOD, STRONG, annotations, grants, imports, line, schema_rest, styled};

/// Lines around a change that are shown with it.
const CONTEXT: usize = 2;

/// Origin of something that wants approval.
pub(crate) enum Origin {
    /// A file, and the component in it.
    File(String, Component),
    /// A server of MCP: what its tools do is not known.
    Server,
}

/// All that somebody has to see before approving. `full` shows every line of every text.
pub(crate) fn standing(name: &str, origin: &Origin, pinned: &ApprovalCheck, full: bool) -> Result<()> {
    let mut quotation = Quotation::new(full);
    let hidden = match pinned.standing() {
        ApprovalStatus::Approved => return heading(&mut quotation, &styled(GOOD, "✓"), name, "is approved"),
        ApprovalStatus::Never => {
            heading(&mut quotation, &styled(BAD, "!"), name, "was never approved")?;
            whole(&mut quotation, origin, pinned.parts())?;
            pinned.parts().tools.iter().map(hidden_in).sum::<u64>()
        }
        ApprovalStatus::Changed(changes) => {
            heading(&mut quotation, &styled(BAD, "!"), name, "changed since it was approved")?;
            changes.iter().try_for_each(|it| change(&mut quotation, it))?;
            changed_bytes(origin, changes)?;
            changes.iter().flat_map(|it| [&it.old, &it.new]).flatten().map(Untrusted::<String>::hidden_chars).sum()
        }
    };
    if hidden > 0 {
        own(2, &format!("{hidden} invisible or controlling characters of these texts were written out"))?;
    }
    match quotation.left_out() {
        0 => Ok(()),
        lines => own(2, &format!("{lines} lines are not shown; look at them with `--full` before you approve")),
    }
}

/// Shows how a server is started or reached, before the first time or after a change.
pub(crate) fn entry(name: &str, old: Option<&[String]>, new: &[String]) -> Result<()> {
    let mut quotation = Quotation::new(true);
    let what = if old.is_some() { "changed since it was approved" } else { "was never approved" };
    let status = format!("is a server whose command or address {what}");
    heading(&mut quotation, &styled(BAD, "!"), name, &status)?;
    let old = old.unwrap_or_default();
    for gone in old.iter().filter(|gone| !new.contains(gone)) {
        quotation.signed("    - ", BAD, gone)?;
    }
    for text in new {
        let (label, style) = if old.contains(text) { ("      ", FAINT) } else { ("    + ", GOOD) };
        quotation.signed(label, style, text)?;
    }
    Ok(())
}

/// Of other bytes nobody can say what they do: what they import is shown, and what else stayed as it was.
fn changed_bytes(origin: &Origin, changes: &[Change]) -> Result<()> {
    let Origin::File(_, component) = origin else { return Ok(()) };
    if !changes.iter().any(|it| it.what == "component") {
        return Ok(());
    }
    line("  imports now")?;
    imports::in_words(component.imports())?;
    match changes {
        [_] => own(2, "tools, texts and grants unchanged"),
        _ => Ok(()),
    }
}

/// On one line where it fits. A name that does not fit stands behind the bar: the screen must not break it.
fn heading(quotation: &mut Quotation, mark: &str, name: &str, status: &str) -> Result<()> {
    if quotation.fits(&format!("! {name} {status}")) {
        return line(&format!("{mark} {} {status}", styled(STRONG, name)));
    }
    line(&format!("{mark} {status}"))?;
    quotation.block(2, name)
}

fn hidden_in(tool: &ToolParts) -> u64 {
    let texts = [tool.export.as_ref(), tool.title.as_ref(), Some(&tool.description), Some(&tool.input_schema)];
    texts.into_iter().chain([tool.output_schema.as_ref()]).flatten().map(Untrusted::<String>::hidden_chars).sum()
}

fn whole(quotation: &mut Quotation, origin: &Origin, parts: &Manifest) -> Result<()> {
    match origin {
        Origin::File(file, component) => {
            quotation.labelled("  component  ", file)?;
            quotation.fact("  digest     ", &component.digest().to_string())?;
            quotation.fact("  size       ", &display_bytes(component.size() as u64))?;
            quotation.fact("  contract   ", &contract(&parts.contract))?;
            line("  imports")?;
            imports::in_words(component.imports())?;
        }
        Origin::Server => own(2, "from       an MCP server: what its tools do is not known here")?,
    }
    line("  granted")?;
    if parts.grants.is_empty() {
        own(4, "nothing: it may compute, and nothing else")?;
    }
    for grant in &parts.grants {
        quotation.block(4, &grants::readable(grant))?;
    }
    parts.tools.iter().try_for_each(|it| tool(quotation, it))
}

fn contract(version: &str) -> String {
    match version {
        "typed" => "plain typed functions; names and schemas come from their types".to_owned(),
        version => format!("fumehood:tool {}", super::paragraph::one_line(version)),
    }
}

fn tool(quotation: &mut Quotation, tool: &ToolParts) -> Result<()> {
    line("")?;
    quotation.labelled("  tool       ", &tool.name)?;
    let mut text = |what: &str, text: Option<&Untrusted<String>>| match text {
        Some(text) => {
            line(&format!("    {what}"))?;
            quotation.block(6, &text.to_sanitized())
        }
        None => Ok(()),
    };
    text("is the export", tool.export.as_ref())?;
    text("title", tool.title.as_ref())?;
    text("description", Some(&tool.description))?;
    line("    says of itself")?;
    for promise in annotations::of_pinned(&tool.annotations) {
        own(6, &promise)?;
    }
    schema(quotation, "arguments", &tool.input_schema)?;
    match &tool.output_schema {
        Some(described) => schema(quotation, "result", described),
        None => own(4, "result: not described"),
    }
}

/// A schema as `inspect` shows it, and all that it says besides: a model is told that too. `--full` adds the schema itself.
fn schema(quotation: &mut Quotation, what: &str, text: &Untrusted<String>) -> Result<()> {
    line(&format!("    {what}"))?;
    let Some(schema) = text.parse_json() else { return quotation.block(6, &text.to_sanitized()) };
    let schema = schema.to_sanitized();
    let shown = super::schema::lines(&schema);
    match shown.is_empty() {
        true => line("      none")?,
        false => quotation.block(6, &shown.join("\n"))?,
    }
    let rest = schema_rest::rest(&schema, &shown);
    if !rest.is_empty() {
        line("      which says besides")?;
        quotation.block(8, &rest.join("\n"))?;
    }
    if quotation.is_full() {
        line("      as JSON Schema")?;
        quotation.block(8, &serde_json::to_string_pretty(&schema)?)?;
    }
    Ok(())
}

fn change(quotation: &mut Quotation, change: &Change) -> Result<()> {
    let what = super::paragraph::one_line(&change.what);
    // It may name a tool: the screen must not break it.
    match quotation.fits(&format!("  {what}")) {
        true => line(&format!("  {what}"))?,
        false => quotation.block(2, &what)?,
    }
    let side = |text: Option<&Untrusted<String>>| match change.what.as_str() {
        "grant" => lines(text).iter().map(|line| grants::readable(line)).collect(),
        _ => lines(text),
    };
    for (sign, text) in differences(&side(change.old.as_ref()), &side(change.new.as_ref())) {
        let style = match sign {
            '-' => BAD,
            '+' => GOOD,
            _ => FAINT,
        };
        quotation.signed(&format!("    {sign} "), style, text)?;
    }
    Ok(())
}

/// The lines of a text; those of JSON, if it is an object or a list.
fn lines(text: Option<&Untrusted<String>>) -> Vec<String> {
    let Some(text) = text else { return Vec::new() };
    // Read before hidden characters are written out: afterwards it may be no JSON any more.
    let json = text.parse_json().map(|value| value.to_sanitized().into_owned());
    let json = json.filter(|value| value.is_object() || value.is_array());
    let pretty = json.and_then(|value| serde_json::to_string_pretty(&value).ok());
    pretty.as_deref().unwrap_or(&text.to_sanitized()).lines().map(str::to_owned).collect()
}

/// Compares lines: those that go and come, between those that stay at the beginning and at the end.
fn differences<'a>(old: &'a [String], new: &'a [String]) -> Vec<(char, &'a str)> {
    let same_head = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let shorter = old.len().min(new.len()) - same_head;
    let same_tail = old.iter().rev().zip(new.iter().rev()).take(shorter).take_while(|(old, new)| old == new).count();
    let middle = |lines: &'a [String]| lines.iter().take(lines.len() - same_tail).skip(same_head);
    let before = old.iter().take(same_head).skip(same_head.saturating_sub(CONTEXT));
    let after = old.iter().skip(old.len() - same_tail).take(CONTEXT);
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
    fn what_stays_is_left_out_but_for_a_little() {
        let check = |old: &[&str], new: &[&str], expected: &str| {
            let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
            let (old, new) = (lines(old), lines(new));
            let shown = differences(&old, &new).iter().map(|(sign, text)| format!("{sign}{text}")).collect::<Vec<_>>();
            assert_eq!(shown.join(","), expected);
        };
        check(&["a"], &["b"], "-a,+b");
        check(&[], &["b"], "+b");
        check(&["1", "2", "3", "x", "4", "5", "6"], &["1", "2", "3", "y", "z", "4", "5", "6"], " 2, 3,-x,+y,+z, 4, 5");
        check(&["a", "a"], &["a", "a", "a"], " a, a,+a");
        check(&["a", "b", "b"], &["a", "b"], " a, b,-b");
    }

    #[test]
    fn schemas_are_shown_line_by_line() {
        assert_eq!(lines(Some(&r#"{"a":1}"#.into())), ["{", "  \"a\": 1", "}"]);
        assert_eq!(lines(Some(&"{\"a\":\"\u{202e}\"}".into())), ["{", "  \"a\": \"\\\\u{202e}\"", "}"]);
        assert_eq!(lines(Some(&"[no json".into())), ["[no json"]);
        assert!(lines(None).is_empty());
    }
}
