//! E-mail addresses in the strings of JSON.

use crate::address::redact;

/// Replaces every address in the names and strings of JSON text, however it is escaped. The rest, such as numbers, stays
/// as it was written. Returns `None` if a string does not end, or has an invalid escape.
pub(crate) fn redact_json(text: &str) -> Option<String> {
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        let (before, from) = rest.split_at(start);
        let (literal, after) = from.split_at(literal_length(from)?);
        redacted.push_str(before);
        let value: String = serde_json::from_str(literal).ok()?;
        match redact(&value) {
            replaced if *replaced == *value => redacted.push_str(literal),
            replaced => redacted.push_str(&serde_json::to_string(&*replaced).ok()?),
        }
        rest = after;
    }
    redacted.push_str(rest);
    Some(redacted)
}

/// Returns the length of the string literal that a text begins with, quotation marks included.
fn literal_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let is_end = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_end
    });
    end.map(|(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_addresses_in_strings_and_names() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(redact_json(text).as_deref(), expected, "{text}");
        check(r#"{"a@b.c": ["x@y.z", 1e400]}"#, Some(r#"{"[e-mail address]": ["[e-mail address]", 1e400]}"#));
        check(r#""\u0061\u0040b.c""#, Some(r#""[e-mail address]""#));
        check(r#""say \"a@b.c\"""#, Some(r#""say \"[e-mail address]\"""#));
        check(r#"{"path": "C:\\"}"#, Some(r#"{"path": "C:\\"}"#));
        check("12", Some("12"));
        check(r#""open"#, None);
        check(r#""\q""#, None);
    }
}
