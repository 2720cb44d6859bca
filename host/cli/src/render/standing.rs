//! How a component stands to what was approved: what is new, old beside new.

use anyhow::Result;
use fumehood::Pinned;
use fumehood::approval::{Change, Parts, Standing};

use super::paragraph::set_in;
use super::{BAD, FAINT, GOOD, STRONG, line, styled};

/// Lines around a change that are shown with it.
const CONTEXT: usize = 2;

/// All that somebody has to see before approving.
pub(crate) fn standing(name: &str, file: &str, pinned: &Pinned) -> Result<()> {
    match pinned.standing() {
        Standing::Approved => line(&format!("{} {} is approved", styled(GOOD, "✓"), styled(STRONG, name))),
        Standing::Never => {
            line(&format!("{} {} was never approved", styled(BAD, "!"), styled(STRONG, name)))?;
            whole(file, pinned.parts())
        }
        Standing::Changed(changes) => {
            line(&format!("{} {} changed since it was approved", styled(BAD, "!"), styled(STRONG, name)))?;
            changes.iter().try_for_each(change)
        }
    }
}

fn whole(file: &str, parts: &Parts) -> Result<()> {
    match parts.component {
        Some(digest) => line(&format!("  component  {file}  {}", styled(FAINT, &digest.to_string())))?,
        None => line(&format!("  from       an {file}: what its tools do is not known here"))?,
    }
    if parts.grants.is_empty() {
        line("  may        compute, and nothing else")?;
    }
    for grant in &parts.grants {
        line(&format!("  may        {}", set_in(grant, "             ")))?;
    }
    for tool in &parts.tools {
        line(&format!("  tool       {}", styled(STRONG, &tool.name)))?;
        line(&format!("    {}", set_in(&tool.description, "    ")))?;
        line(&format!("    {}", styled(FAINT, &set_in(&tool.input_schema, "    "))))?;
    }
    Ok(())
}

fn change(change: &Change) -> Result<()> {
    line(&format!("  {}", set_in(&change.what, "  ")))?;
    for (sign, text) in differences(&lines(change.old.as_deref()), &lines(change.new.as_deref())) {
        let style = match sign {
            '-' => BAD,
            '+' => GOOD,
            _ => FAINT,
        };
        line(&format!("    {}", styled(style, &format!("{sign} {}", set_in(text, "      ")))))?;
    }
    Ok(())
}

/// The lines of a text; those of JSON, if it is an object or a list.
fn lines(text: Option<&str>) -> Vec<String> {
    let Some(text) = text else { return Vec::new() };
    let json = text.starts_with(['{', '[']).then(|| serde_json::from_str::<serde_json::Value>(text).ok()).flatten();
    let pretty = json.and_then(|value| serde_json::to_string_pretty(&value).ok());
    pretty.as_deref().unwrap_or(text).lines().map(str::to_owned).collect()
}

/// What goes and what comes, between what stays at the beginning and at the end.
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
        assert_eq!(lines(Some(r#"{"a":1}"#)), ["{", "  \"a\": 1", "}"]);
        assert_eq!(lines(Some("[no json")), ["[no json"]);
        assert!(lines(None).is_empty());
    }
}
