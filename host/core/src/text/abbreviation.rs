//! Short forms of ids for people: prefixes that identify one of several.

/// Minimum length of an abbreviated id, in characters.
pub const MIN_ID_CHARS: usize = 7;

/// Returns the shortest prefix of an id, of at least [`MIN_ID_CHARS`] characters, that none of `others` begins with. The id itself
/// may be among the others.
///
/// ```
/// use fumehood_core::text::abbreviation::abbreviate;
///
/// assert_eq!(abbreviate("9f3ab21c00d4", ["9f3ab21c00d4", "70ccb21c00d4"]), "9f3ab21");
/// assert_eq!(abbreviate("9f3ab21c00d4", ["9f3ab21c0fff"]), "9f3ab21c00");
/// ```
pub fn abbreviate<'a, 'b>(id: &'a str, others: impl IntoIterator<Item = &'b str>) -> &'a str {
    let shared = |other: &str| id.chars().zip(other.chars()).take_while(|(one, two)| one == two).count();
    let longest = others.into_iter().filter(|other| *other != id).map(shared).max();
    let chars = longest.map_or(MIN_ID_CHARS, |shared| MIN_ID_CHARS.max(shared.saturating_add(1)));
    id.char_indices().nth(chars).and_then(|(end, _)| id.get(..end)).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_unique_and_end_between_characters() {
        fn check(id: &str, others: &[&str], expected: &str) {
            assert_eq!(abbreviate(id, others.iter().copied()), expected, "{id}");
        }

        check("abcdefghij", &[], "abcdefg");
        check("abc", &["abd"], "abc");
        check("abcdefghij", &["abcdefghij", "abcdexx"], "abcdefg");
        check("abcdefghij", &["abcdefgh"], "abcdefghi");
        check("abcdefgh", &["abcdefghij"], "abcdefgh");
        check("äöüäöüäöüäöü", &["äöüäöüäx"], "äöüäöüäö");
    }
}
