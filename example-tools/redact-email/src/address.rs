//! E-mail addresses in text.

use std::borrow::Cow;

/// The text in place of an address.
const REPLACEMENT: &str = "[e-mail address]";

/// Replaces every address. Takes time in proportion to the length of the text.
pub(crate) fn redact(text: &str) -> Cow<'_, str> {
    let mut redacted = String::new();
    // The end of what was copied, or left out.
    let mut done = 0;
    for (at, _) in text.match_indices('@') {
        let before = text.get(done..at).unwrap_or_default();
        let after = text.get(at + 1..).unwrap_or_default();
        let local = before.len() - before.trim_end_matches(is_local).len();
        let domain = domain_length(after);
        if local == 0 || domain == 0 {
            continue;
        }
        redacted.push_str(before.get(..before.len() - local).unwrap_or_default());
        redacted.push_str(REPLACEMENT);
        done = at + 1 + domain;
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    redacted.push_str(text.get(done..).unwrap_or_default());
    Cow::Owned(redacted)
}

fn is_local(c: char) -> bool {
    c.is_alphanumeric() || "._%+-".contains(c)
}

/// Returns the length of the domain at the beginning of a text; zero if there is none. It has a dot within.
fn domain_length(text: &str) -> usize {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '.' || c == '-')).unwrap_or(text.len());
    // A full stop at the end belongs to the sentence.
    let domain = text.get(..end).unwrap_or_default().trim_end_matches(['.', '-']);
    match domain.split_once('.') {
        Some((first, _)) if !first.is_empty() => domain.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_addresses_by_their_form() {
        let check = |text: &str, expected: &str| assert_eq!(redact(text), expected, "{text}");
        check("ada@example.com", "[e-mail address]");
        check("Write to a.b+c@mail.example.co.uk.", "Write to [e-mail address].");
        check("<x@y.z>, (p_q%r-s@t-u.v)", "<[e-mail address]>, ([e-mail address])");
        check("jürgen@müller.de!", "[e-mail address]!");
        check("a@b.c@d.e", "[e-mail address]@d.e");
        check("3 @ 4, @user, user@localhost, a@.b, a@", "3 @ 4, @user, user@localhost, a@.b, a@");
        check("", "");
        check(&"@".repeat(100_000), &"@".repeat(100_000));
    }
}
