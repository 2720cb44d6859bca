//! Words of names, descriptions and queries, in the form in which they are compared.

/// Maximum length of a word, in bytes. What is longer is data, such as a key or an address, and is left out.
const MAX_WORD_BYTES: usize = 40;
/// Maximum length of a prefix that is joined with the word after its hyphen, in bytes.
const MAX_PREFIX_BYTES: usize = 2;
/// Length of a word below which it is compared as it is written, in bytes.
const MIN_STEM_BYTES: usize = 4;

/// Words that say nothing about a tool.
const STOP_WORDS: [&str; 54] = [
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "did", "do", "does", "for", "from", "has", "have",
    "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "of", "on", "or", "our", "s", "so", "some", "that",
    "the", "their", "there", "these", "this", "to", "us", "want", "was", "we", "were", "what", "when", "where",
    "which", "who", "why", "with", "you",
];

/// Calls `take` with each word of a text, in order: in lower case, without endings such as plurals.
///
/// Words end at everything that is neither a letter nor a digit, and where `camelCase` and `HTTPServer` begin a new one.
pub(super) fn for_each_word(text: &str, mut take: impl FnMut(&str)) {
    let mut word = String::new();
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let rest = text.get(at + c.len_utf8()..).unwrap_or_default();
        let begins = c.is_uppercase() && (before.is_lowercase() || (before.is_alphanumeric() && is_capitalized(rest)));
        // A short prefix belongs to the word after its hyphen, as in `e-mail` and `to-do`.
        let joins = c == '-' && word.len() <= MAX_PREFIX_BYTES && before.is_alphabetic();
        if begins || !(c.is_alphanumeric() || joins) {
            end_word(&mut word, &mut take);
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    end_word(&mut word, &mut take);
}

fn end_word(word: &mut String, take: &mut impl FnMut(&str)) {
    if !word.is_empty() && word.len() <= MAX_WORD_BYTES && !STOP_WORDS.contains(&word.as_str()) {
        stem(word);
        take(word);
    }
    word.clear();
}

/// Returns whether a capital before this text begins a word. The plural of an abbreviation, as in `PDFs`, does not.
fn is_capitalized(rest: &str) -> bool {
    let mut chars = rest.chars();
    match (chars.next(), chars.next()) {
        (Some('s'), after) => after.is_some_and(char::is_alphanumeric),
        (next, _) => next.is_some_and(char::is_lowercase),
    }
}

/// Removes the endings of English plurals and verb forms, so that `creates`, `created`, `creating` and `creation` are
/// one word. The result need not be a word, only the same for all forms.
fn stem(word: &mut String) {
    if word.len() < MIN_STEM_BYTES || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return;
    }
    stem_plural(word);
    for ending in ["ing", "ed", "ion", "or"] {
        if let Some(rest) = word.strip_suffix(ending) {
            let is_verb = rest.len() >= 3 && rest.bytes().any(|byte| b"aeiouy".contains(&byte));
            // `creation`, but not `million`; `creator` and `selector`, but not `color`.
            let is_form = match ending {
                "ion" => rest.ends_with(['s', 't']),
                "or" => rest.ends_with("at") || rest.ends_with("ct"),
                _ => true,
            };
            if is_verb && is_form {
                word.truncate(rest.len());
                undouble(word);
            }
            break;
        }
    }
    if word.len() > 3 && word.ends_with('e') {
        word.pop();
    }
    if word.len() > 3 && word.ends_with('y') {
        word.pop();
        word.push('i');
    }
}

fn stem_plural(word: &mut String) {
    if word.ends_with("ies") {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if ["sses", "shes", "ches", "xes", "zes"].iter().any(|ending| word.ends_with(ending)) {
        word.truncate(word.len() - 2);
    } else if word.ends_with('s') && !["ss", "us", "is"].iter().any(|ending| word.ends_with(ending)) {
        word.pop();
    }
}

/// Removes the second of two equal consonants at the end, as in `running`.
fn undouble(word: &mut String) {
    let mut last = word.bytes().rev();
    let (Some(a), Some(b)) = (last.next(), last.next()) else { return };
    if a == b && !b"aeioulsz".contains(&a) && word.len() > 3 {
        word.pop();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        for_each_word(text, |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn splits_names_of_every_style() {
        for name in
            ["read_text_file", "read-text-file", "readTextFile", "ReadTextFile", "READ TEXT FILE", "read.text/file"]
        {
            assert_eq!(words(name), ["read", "text", "fil"], "{name}");
        }
        assert_eq!(words("parseHTTPRequest"), ["pars", "http", "request"]);
        assert_eq!(words("ec2__s3Bucket base64"), ["ec2", "s3", "bucket", "base64"]);
        assert_eq!(words("an e-mail, a to-do, two PDFs"), ["email", "todo", "two", "pdf"]);
        assert_eq!(words("Größe_ändern"), ["größe", "ändern"]);
    }

    #[test]
    fn forms_of_a_word_are_one_word() {
        fn check(forms: &[&str]) {
            let stems: Vec<_> = forms.iter().map(|form| words(form)).collect();
            assert!(stems.windows(2).all(|pair| pair[0] == pair[1]), "{forms:?} {stems:?}");
        }

        check(&["create", "creates", "created", "creating", "creation", "creator"]);
        check(&["file", "files"]);
        check(&["query", "queries", "querying"]);
        check(&["search", "searches", "searching", "searched"]);
        check(&["stop", "stops", "stopped", "stopping"]);
        check(&["translate", "translation", "translator"]);
        check(&["convert", "converts", "converting"]);
        check(&["status"]);
        assert_ne!(words("union"), words("un"));
        assert_ne!(words("class"), words("clas"));
    }

    #[test]
    fn leaves_out_what_says_nothing() {
        assert_eq!(words("I want to list the files in my folder"), ["list", "fil", "folder"]);
        assert_eq!(words(&format!("key {}", "x".repeat(41))), ["key"]);
        assert_eq!(words(" -- !! "), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn words_are_short_and_without_capitals(text in any::<String>()) {
            for word in words(&text) {
                prop_assert!(!word.is_empty() && word.len() <= MAX_WORD_BYTES);
                prop_assert!(word.chars().all(char::is_alphanumeric) || !word.is_ascii());
            }
        }
    }
}
