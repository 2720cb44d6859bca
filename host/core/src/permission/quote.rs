//! How much of a text that was refused an error repeats.

/// Characters that are enough to recognise a text by.
const ENOUGH: usize = 64;

/// Enough of a refused text to recognise it by, with nothing in it that a terminal would act on.
pub(crate) fn quote(text: &str) -> String {
    let printable = crate::sanitize::printable(text);
    match printable.char_indices().nth(ENOUGH) {
        Some((end, _)) => format!("{}…", printable.get(..end).unwrap_or_default()),
        None => printable.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_control_characters_escaped() {
        assert_eq!(quote("a\u{7}b"), "a\\u{7}b");
        assert_eq!(quote(&"ä".repeat(64)), "ä".repeat(64));
        assert_eq!(quote(&"ä".repeat(65)), format!("{}…", "ä".repeat(64)));
    }
}
