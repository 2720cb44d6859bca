//! URI templates (RFC 6570), as far as it takes to tell whose resource a URI is.

/// Returns whether a URI may be an expansion of a template. Each expression stands for any text.
pub(super) fn matches(template: &str, uri: &str) -> bool {
    let mut literals = Vec::new();
    let mut rest = template;
    while let Some((literal, after)) = rest.split_once('{') {
        literals.push(literal);
        rest = after.split_once('}').map_or("", |(_, after)| after);
    }
    let Some(first) = literals.first() else { return template == uri };
    let Some(mut uri) = uri.strip_prefix(first).and_then(|uri| uri.strip_suffix(rest)) else { return false };
    for literal in literals.iter().skip(1) {
        let Some((_, after)) = uri.split_once(literal) else { return false };
        uri = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_stand_for_any_text() {
        for (template, uri, expected) in [
            ("file:///{path}", "file:///a/b", true),
            ("file:///{path}", "http://a", false),
            ("db://{table}/rows/{id}", "db://t/rows/5", true),
            ("db://{table}/rows/{id}", "db://t/columns/5", false),
            ("db://{table}.json", "db://t.json", true),
            ("db://{table}.json", "db://t.xml", false),
            ("search://q{?text,page}", "search://q?text=a", true),
            ("plain://a", "plain://a", true),
            ("plain://a", "plain://ab", false),
            ("a{b}a", "a", false),
            ("open://{", "open://x", true),
        ] {
            assert_eq!(matches(template, uri), expected, "{template} {uri}");
        }
    }
}
