//! The tool `statistics`.

use fumehood_guest::tool;
use schemars::JsonSchema;
use serde::Serialize;

/// Words that an adult reads per minute, silently and in English.
const WORDS_PER_MINUTE: usize = 238;

/// Statistics of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Statistics {
    /// Bytes, in UTF-8.
    pub bytes: usize,
    /// Characters: Unicode scalar values.
    pub characters: usize,
    /// Words: what white space separates.
    pub words: usize,
    /// Lines. A line break at the end does not begin another one.
    pub lines: usize,
    /// The reading time in seconds, rounded up, at 238 words a minute.
    pub reading_seconds: usize,
}

/// Counts the bytes, characters, words and lines of a text and estimates how long reading it takes.
#[tool(title = "Text statistics", read_only, idempotent, destructive = false, open_world = false)]
pub fn statistics(
    /// The text.
    text: String,
) -> Statistics {
    let words = text.split_whitespace().count();
    Statistics {
        bytes: text.len(),
        characters: text.chars().count(),
        words,
        lines: text.lines().count(),
        reading_seconds: words.saturating_mul(60).div_ceil(WORDS_PER_MINUTE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_everything() {
        let count = |text: &str| {
            let Statistics { bytes, characters, words, lines, reading_seconds } = statistics(text.to_owned());
            [bytes, characters, words, lines, reading_seconds]
        };
        assert_eq!(count(""), [0, 0, 0, 0, 0]);
        assert_eq!(count("Grüß dich,\nWelt!\n"), [19, 17, 3, 2, 1]);
        assert_eq!(count(&"word ".repeat(238)), [1190, 1190, 238, 1, 60]);
    }
}
