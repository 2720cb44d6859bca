//! The tool `regex_replace`.

use fumehood_guest::{ToolError, tool};
use schemars::JsonSchema;
use serde::Serialize;

use crate::pattern;

/// The text after the replacements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Replaced {
    /// The whole text.
    pub text: String,
    /// The number of replaced matches.
    pub replacements: usize,
}

/// Replaces the parts of a text that match a regular expression, and returns the whole text.
///
/// The syntax is that of RE2 and Rust's `regex`: no look-around and no backreferences. `^` and `$` match at every line.
#[tool(title = "Replace with a regular expression", read_only, idempotent, destructive = false, open_world = false)]
pub fn regex_replace(
    /// The text.
    text: String,
    /// The regular expression.
    pattern: String,
    /// The replacement of each match. `$1` or `${name}` stands for a group, `$0` for the match, `$$` for a dollar.
    replacement: String,
    /// True to ignore case.
    #[default(false)]
    ignore_case: bool,
    /// The most matches to replace, from the start of the text; all of them if absent.
    #[schemars(range(min = 1))]
    limit: Option<usize>,
) -> Result<Replaced, ToolError> {
    let regex = pattern::compile(&pattern, ignore_case)?;
    let limit = limit.unwrap_or(usize::MAX);
    let mut replaced = String::with_capacity(text.len());
    let mut replacements = 0;
    let mut kept = 0;
    for captures in regex.captures_iter(&text).take(limit) {
        let Some(whole) = captures.get(0) else { continue };
        replaced.push_str(text.get(kept..whole.start()).unwrap_or_default());
        captures.expand(&replacement, &mut replaced);
        kept = whole.end();
        replacements += 1;
    }
    replaced.push_str(text.get(kept..).unwrap_or_default());
    Ok(Replaced { text: replaced, replacements })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replace(text: &str, pattern: &str, replacement: &str, limit: Option<usize>) -> (String, usize) {
        let Replaced { text, replacements } =
            regex_replace(text.to_owned(), pattern.to_owned(), replacement.to_owned(), false, limit).unwrap();
        (text, replacements)
    }

    #[test]
    fn replacement_may_use_groups() {
        let swapped = replace("Doe, Jane; Roe, Max", r"(?<last>\w+), (\w+)", "$2 ${last}", None);
        assert_eq!(swapped, ("Jane Doe; Max Roe".to_owned(), 2));
        assert_eq!(replace("5", r"\d", "$$$0", None), ("$5".to_owned(), 1));
    }

    #[test]
    fn leaves_the_rest_unchanged() {
        assert_eq!(replace("aaaä", "a", "b", Some(2)), ("bbaä".to_owned(), 2));
        assert_eq!(replace("abc", "x", "y", None), ("abc".to_owned(), 0));
        assert_eq!(replace("ab", "", "-", None), ("-a-b-".to_owned(), 3));
    }
}
