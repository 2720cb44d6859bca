//! The search for tools by words.

use fumehood_core::tool::Tool;
use serde_json::Value;

/// Score of a word that is a part of the name of a tool.
const NAME_SCORE: u32 = 8;
/// Score of a word that is contained in the name.
const IN_NAME_SCORE: u32 = 4;
/// Score of a word of the title or the description.
const DESCRIPTION_SCORE: u32 = 2;
/// Score of a word of a parameter's name.
const PARAMETER_SCORE: u32 = 1;
/// Maximum number of words of a query that are looked for.
const MAX_WORDS: usize = 32;

/// Returns the positions of the tools that a query fits, the best first; all of them for an empty query.
///
/// The order depends on the query and on the tools alone.
pub(super) fn rank(query: &str, tools: &[(&str, &Tool)]) -> Vec<usize> {
    let wanted: Vec<String> = words(query).take(MAX_WORDS).collect();
    if wanted.is_empty() {
        return (0..tools.len()).collect();
    }
    let mut scored: Vec<(u32, usize)> =
        tools.iter().enumerate().map(|(at, (name, tool))| (score(&wanted, name, tool), at)).collect();
    scored.retain(|(score, _)| *score > 0);
    scored.sort_by(|(a, first), (b, second)| b.cmp(a).then(first.cmp(second)));
    scored.into_iter().map(|(_, at)| at).collect()
}

fn score(wanted: &[String], name: &str, tool: &Tool) -> u32 {
    let definition = tool.definition();
    let lower_name = name.to_lowercase();
    let in_name: Vec<String> = words(name).collect();
    let mut described: Vec<String> = words(&definition.description.to_sanitized()).collect();
    described.extend(
        definition.title.as_ref().map(|title| words(&title.to_sanitized()).collect::<Vec<_>>()).into_iter().flatten(),
    );
    let properties = tool.input_schema().get("properties").and_then(Value::as_object);
    let parameters: Vec<String> = properties.into_iter().flatten().flat_map(|(name, _)| words(name)).collect();
    let mut total: u32 = 0;
    for word in wanted {
        let of_name = if in_name.iter().any(|part| is_same(part, word)) {
            NAME_SCORE
        } else if lower_name.contains(word.as_str()) {
            IN_NAME_SCORE
        } else {
            0
        };
        let described = if described.iter().any(|part| is_same(part, word)) { DESCRIPTION_SCORE } else { 0 };
        let parameter = if parameters.iter().any(|part| is_same(part, word)) { PARAMETER_SCORE } else { 0 };
        total = total.saturating_add(of_name + described + parameter);
    }
    total
}

/// Returns whether two words are the same, apart from a plural `s`.
fn is_same(first: &str, second: &str) -> bool {
    first.strip_suffix('s').unwrap_or(first) == second.strip_suffix('s').unwrap_or(second)
}

/// Splits a text into words in lower case, of at least two characters.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().nth(1).is_some()).map(str::to_lowercase)
}
