//! Resolution of tool names that a model shortened or misspelt.

use fumehood_core::chat::ToolSpec;
use fumehood_core::text::sanitize::truncate_str;
use fumehood_core::tool::name::{MAX_FULL_NAME_BYTES, SEPARATOR};
use fumehood_core::tool::{NameForm, ToolAliases};

/// Maximum number of names in a suggestion.
const MAX_SUGGESTIONS: usize = 3;

/// Finds the tool with this name or alias: see [`ToolAliases::resolve`].
pub(crate) fn find<'t>(name: &str, tools: &'t [ToolSpec]) -> Option<&'t ToolSpec> {
    let named = |name: &str| tools.iter().find(|tool| tool.name == name);
    named(name).or_else(|| {
        let names = tools.iter().map(|tool| (tool.name.as_str(), tool.alias.as_deref()));
        named(ToolAliases::new(names, NameForm::Portable).resolve(name)?)
    })
}

/// Finds the tool with this name or alias, or else the only one whose last part it is.
pub(crate) fn resolve<'t>(name: &str, tools: &'t [ToolSpec]) -> Option<&'t ToolSpec> {
    find(name, tools).or_else(|| {
        let mut shortened = tools.iter().filter(|tool| is_last_part(name, &tool.name));
        shortened.next().filter(|_| shortened.next().is_none())
    })
}

fn is_last_part(part: &str, name: &str) -> bool {
    !part.is_empty()
        && name.strip_suffix(part).is_some_and(|rest| rest.len() > SEPARATOR.len() && rest.ends_with(SEPARATOR))
}

/// Returns the names that are similar to this one, the most similar first.
pub(crate) fn suggestions<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let written = truncate_str(name, MAX_FULL_NAME_BYTES).to_lowercase();
    let mut near: Vec<(usize, &str)> =
        names.into_iter().filter_map(|known| Some((distance(&written, known)?, known))).collect();
    near.sort_unstable();
    near.into_iter().take(MAX_SUGGESTIONS).map(|(_, known)| known).collect()
}

/// Returns the edit distance (Damerau-Levenshtein) between a name and a known one; `None` if it is too large.
fn distance(written: &str, known: &str) -> Option<usize> {
    let known = known.to_lowercase();
    if is_last_part(written, &known) {
        return Some(0);
    }
    let own = last_part(&known);
    let whole = strsim::damerau_levenshtein(written, &known);
    let parts = strsim::damerau_levenshtein(last_part(written), own);
    // A difference in every letter is no likeness, so the maximum is below the length of a short name.
    let max = (1 + own.len() / 5).min(own.len().saturating_sub(1));
    let nearest = whole.min(parts);
    (nearest <= max).then_some(nearest)
}

fn last_part(name: &str) -> &str {
    name.rsplit(SEPARATOR).next().unwrap_or_default()
}

/// Asks whether a tool with a similar name was meant, such as ``did you mean `calculator__add`?``. `None` if none of the
/// names is similar.
#[must_use]
pub fn suggest<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<String> {
    did_you_mean(&suggestions(name, names))
}

/// Formats suggestions as a question, such as ``did you mean `calculator__add` or `calculator__divide`?``; `None` if
/// there are none.
pub(crate) fn did_you_mean(suggestions: &[&str]) -> Option<String> {
    let quoted: Vec<String> = suggestions.iter().map(|name| format!("`{name}`")).collect();
    let (last, rest) = quoted.split_last()?;
    let rest = if rest.is_empty() { String::new() } else { format!("{} or ", rest.join(", ")) };
    Some(format!("did you mean {rest}{last}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] =
        ["calculator__add", "calculator__evaluate", "files__read", "files__read_all", "notes__read"];

    #[test]
    fn resolves_exact_names_and_unique_last_parts() {
        fn check(tools: &[ToolSpec], name: &str, expected: Option<&str>) {
            assert_eq!(resolve(name, tools).map(|tool| tool.name.as_str()), expected, "{name}");
        }

        let spec = |name: &&str| ToolSpec { name: (*name).to_owned(), ..ToolSpec::default() };
        let tools: Vec<ToolSpec> = NAMES.iter().map(spec).collect();
        check(&tools, "calculator__add", Some("calculator__add"));
        check(&tools, "evaluate", Some("calculator__evaluate"));
        check(&tools, "read_all", Some("files__read_all"));
        check(&tools, "functions.calculator__add:0", Some("calculator__add"));
        for name in ["read", "valuate", "_add", "__add", "", "Evaluate", "rm", "all"] {
            check(&tools, name, None);
        }
    }

    #[test]
    fn suggests_similar_names() {
        fn check(name: &str, expected: &[&str]) {
            assert_eq!(suggestions(name, NAMES), expected, "{name}");
        }

        check("evaluate", &["calculator__evaluate"]);
        check("Calculator__Evaluate", &["calculator__evaluate"]);
        check("calculator__evalute", &["calculator__evaluate"]);
        check("calc__evaluate", &["calculator__evaluate"]);
        check("read", &["files__read", "notes__read"]);
        check("dad", &["calculator__add"]);
        check("rm", &[]);
        check("", &[]);
        check("search_the_web", &[]);
    }

    #[test]
    fn formats_suggestions_as_a_question() {
        assert_eq!(did_you_mean(&[]), None);
        assert_eq!(did_you_mean(&["a"]).as_deref(), Some("did you mean `a`?"));
        assert_eq!(did_you_mean(&["a", "b", "c"]).as_deref(), Some("did you mean `a`, `b` or `c`?"));
    }
}
