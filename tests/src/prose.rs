//! Counts the private turns in texts for people: pages, help, and descriptions of settings.

/// Turns that send a reader back to find out what is meant; CONTRIBUTING.md says what to write.
const PRIVATE: [&str; 16] = [
    "that of",
    "those of",
    "that which",
    "those which",
    "those that",
    "what is",
    "one that",
    "nobody",
    "whoever",
    "of its own",
    "of their own",
    "the same holds for",
    "all the same",
    "other than that",
    "for want of",
    "once more",
];

/// The words of a text, in lower case, with `x` in place of code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prose {
    words: Vec<String>,
}

impl Prose {
    /// Reads the words of a text without blocks of code.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let prose: String =
            text.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "x" }).collect();
        let is_word = |c: char| c.is_alphabetic() || c == '\'';
        let words = prose.split(|c| !is_word(c)).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
        Self { words }
    }

    /// Returns the number of words.
    #[must_use]
    pub fn word_count(&self) -> usize {
        self.words.len()
    }

    /// Returns the private turns in the text, each as often as it occurs.
    #[must_use]
    pub fn private_turns(&self) -> Vec<&'static str> {
        let text = format!(" {} ", self.words.join(" "));
        let times = |turn: &&'static str| std::iter::repeat_n(*turn, text.matches(&format!(" {turn} ")).count());
        PRIVATE.iter().flat_map(times).collect()
    }

    /// Returns the private turns if there are more than one in a thousand words.
    ///
    /// # Errors
    /// The turns, and the number of words.
    pub fn check(&self) -> Result<(), String> {
        let turns = self.private_turns();
        let words = self.word_count();
        if turns.len() * 1000 <= words {
            return Ok(());
        }
        Err(format!("{} private turns in {words} words, at most one in a thousand: {turns:?}", turns.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_private_turns_outside_of_code() {
        let text = "Nobody knows\nwhat is in `one that`; what isolation is, is known. Whoever `asks`";
        assert_eq!(Prose::new(text).private_turns(), ["what is", "nobody", "whoever"]);
        assert!(prose_of(998).check().unwrap_err().contains("1 private turns in 999 words"));
        assert_eq!(prose_of(999).check(), Ok(()));
    }

    fn prose_of(words: usize) -> Prose {
        Prose::new(&format!("nobody {}", "word ".repeat(words)))
    }
}
