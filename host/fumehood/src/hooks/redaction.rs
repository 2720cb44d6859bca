//! A hook that replaces what a pattern matches in results.

use std::borrow::Cow;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::content::Content;
use fumehood_core::call::result::CallError;
use fumehood_core::policy::call::{Decision, Outcome, Policy};
use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::tool::{Tool, ValidatedCall};
use regex::{NoExpand, Regex, RegexBuilder};
use serde_json::Value;

use super::tool_patterns::ToolPatterns;

/// Maximum size of a compiled pattern, in bytes.
const MAX_COMPILED_BYTES: usize = 1 << 20;
/// Maximum length of a pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 4096;
/// Maximum nesting of a pattern.
const MAX_NESTING: u32 = 50;

/// A hook that replaces what a pattern matches in results: in texts, in the names and strings of JSON, in links, in blobs
/// of text, and in the messages of failures. Searching takes time in proportion to the size of a result.
///
/// ```
/// use fumehood::hooks::{Redaction, ToolPatterns};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let shop = ToolPatterns::new(["shop__*"])?;
/// let _cards = Redaction::new("cards", shop, r"\b\d{16}\b", "[card number]")?;
/// // A pattern may not match where there is no text.
/// assert!(Redaction::new("cards", ToolPatterns::default(), r"\d*", "").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Redaction {
    name: String,
    tools: ToolPatterns,
    pattern: Regex,
    replacement: String,
}

/// Errors of [`Redaction::new`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedactionError {
    /// The pattern is too long.
    #[error("the pattern has {0} bytes; the maximum is {MAX_PATTERN_BYTES}")]
    TooLong(usize),
    /// The pattern is malformed, or too large once it is compiled.
    #[error("invalid pattern: {0}")]
    Pattern(#[source] regex::Error),
    /// The pattern matches where there is no text.
    #[error("the pattern matches the empty text, which would insert a replacement between all characters")]
    MatchesNothing,
}

impl Redaction {
    /// Creates a hook that puts `replacement`, word for word, in place of what `pattern` matches in results of these
    /// tools. The syntax of patterns is that of the crate `regex`: no look-around and no back-references.
    ///
    /// # Errors
    /// If the pattern is malformed, too large, or matches an empty text.
    pub fn new(
        name: impl Into<String>,
        tools: ToolPatterns,
        pattern: &str,
        replacement: impl Into<String>,
    ) -> Result<Self, RedactionError> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(RedactionError::TooLong(pattern.len()));
        }
        let mut builder = RegexBuilder::new(pattern);
        builder.size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES).nest_limit(MAX_NESTING);
        let pattern = builder.build().map_err(RedactionError::Pattern)?;
        if pattern.is_match("") {
            return Err(RedactionError::MatchesNothing);
        }
        Ok(Self { name: name.into(), tools, pattern, replacement: replacement.into() })
    }

    /// Sets the name of the hook in messages.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.pattern.replace_all(text, NoExpand(&self.replacement))
    }

    /// Returns the text with replacements; `None` if there are none.
    fn redact_untrusted(&self, text: &Untrusted<String>) -> Option<Untrusted<String>> {
        // Raw, because what is searched for has to be found as it was written.
        match self.redact(text.expose_raw()) {
            Cow::Borrowed(_) => None,
            Cow::Owned(redacted) => Some(Untrusted::new(redacted)),
        }
    }

    /// Redacts one part. Returns `None` if nothing in it matches.
    fn redact_part(&self, part: &Content) -> Option<Content> {
        match part {
            Content::Text { text } => Some(Content::Text { text: self.redact_untrusted(text)? }),
            Content::Json { value } => self.redact_json(value.expose_raw()),
            Content::Blob { mime_type, data } => {
                let Cow::Owned(redacted) = self.redact(std::str::from_utf8(data).ok()?) else { return None };
                Some(Content::Blob { mime_type: mime_type.clone(), data: redacted.into_bytes() })
            }
            Content::Link { uri, title, mime_type } => {
                let new_uri = self.redact_untrusted(uri);
                let new_title = title.as_ref().and_then(|title| self.redact_untrusted(title));
                (new_uri.is_some() || new_title.is_some()).then(|| Content::Link {
                    uri: new_uri.unwrap_or_else(|| uri.clone()),
                    title: new_title.or_else(|| title.clone()),
                    mime_type: mime_type.clone(),
                })
            }
        }
    }

    /// Redacts JSON text: its names and strings as they read once they are unescaped, and its numbers as they are written.
    /// The rest stays as it is.
    fn redact_json(&self, text: &str) -> Option<Content> {
        let mut redacted = String::with_capacity(text.len());
        let mut is_changed = false;
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let length = match first {
                '"' => string_length(rest),
                '-' | '0'..='9' => rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))),
                _ => Some(first.len_utf8()),
            };
            let (token, after) = rest.split_at(length.unwrap_or(rest.len()));
            let value = match first {
                '"' => serde_json::from_str(token).unwrap_or_else(|_| token.to_owned()),
                '-' | '0'..='9' => token.to_owned(),
                _ => String::new(),
            };
            match self.redact(&value) {
                Cow::Borrowed(_) => redacted.push_str(token),
                Cow::Owned(replaced) => {
                    redacted.push_str(&Value::String(replaced).to_string());
                    is_changed = true;
                }
            }
            rest = after;
        }
        // The text was JSON, and strings were put in place of strings and numbers.
        if is_changed { Content::json(redacted).ok() } else { None }
    }

    fn decide(&self, outcome: &Result<Vec<Content>, CallError>) -> Decision<Outcome> {
        match outcome {
            Ok(parts) => {
                let redacted: Vec<_> = parts.iter().map(|part| self.redact_part(part)).collect();
                if redacted.iter().all(Option::is_none) {
                    return Decision::Allow;
                }
                let both = redacted.into_iter().zip(parts);
                Decision::Rewrite {
                    to: Ok(both.map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect()),
                    note: None,
                }
            }
            Err(error) => {
                let hint = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
                let backtrace = error.backtrace.iter().map(|frame| frame.as_str());
                let has_more = backtrace.clone().any(|frame| self.pattern.is_match(frame));
                match self.redact(&format!("{}{hint}", error.message)) {
                    Cow::Borrowed(text) if has_more => Decision::Rewrite { to: Err(text.to_owned()), note: None },
                    Cow::Borrowed(_) => Decision::Allow,
                    Cow::Owned(redacted) => Decision::Rewrite { to: Err(redacted), note: None },
                }
            }
        }
    }
}

/// Returns the length of the string literal that a text begins with, quotation marks included.
fn string_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let is_end = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_end
    });
    end.map(|(at, _)| at + 1)
}

impl Policy for Redaction {
    fn name(&self) -> &str {
        &self.name
    }

    fn applies_to(&self, tool: &Tool) -> bool {
        self.tools.matches(tool.full_name())
    }

    fn decides_on_results(&self) -> bool {
        true
    }

    fn after<'a>(
        &'a self,
        _: &'a ValidatedCall,
        _: &'a CallContext,
        outcome: &'a Result<Vec<Content>, CallError>,
    ) -> BoxFuture<'a, Result<Decision<Outcome>, CallError>> {
        Box::pin(std::future::ready(Ok(self.decide(outcome))))
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::call::error_kind::ErrorKind;

    use super::*;

    fn redaction(pattern: &str) -> Result<Redaction, RedactionError> {
        Redaction::new("r", ToolPatterns::default(), pattern, "$0[…]")
    }

    fn json_of(parts: &[Content]) -> String {
        serde_json::to_string(parts).unwrap()
    }

    #[test]
    fn replaces_matches_in_every_kind_of_content() {
        let redaction = redaction(r"\b\d{3}-\d{4}\b|4711").unwrap();
        let parts = [
            Content::text("call 555-1234"),
            Content::json(r#"{"555-1234": ["\u0035\u0035\u0035-1234", 4711, 1.50, true]}"#.to_owned()).unwrap(),
            Content::Blob { mime_type: "text/plain".to_owned().into(), data: b"555-1234".to_vec() },
            Content::Link { uri: "tel:555-1234".to_owned().into(), title: None, mime_type: None },
            Content::text("nothing"),
        ];
        let Decision::Rewrite { to: Ok(redacted), .. } = redaction.decide(&Ok(parts.to_vec())) else {
            panic!("it is kept")
        };
        let found = json_of(&redacted);
        // The replacement is taken word for word: `$0` does not bring the match back.
        assert!(!found.contains("1234") && !found.contains("4711") && found.contains("call $0[…]"), "{found}");
        assert!(
            found.contains(r#""$0[…]":["$0[…]","$0[…]","#)
                || found.contains(r#""$0[…]": ["$0[…]", "$0[…]", 1.50, true]"#),
            "{found}"
        );
        assert!(found.contains("1.50") && found.contains("nothing") && found.contains("tel:$0[…]"), "{found}");
        assert!(matches!(redaction.decide(&Ok(vec![Content::text("nothing")])), Decision::Allow));
    }

    #[test]
    fn replaces_matches_in_failures() {
        let redaction = redaction("4711").unwrap();
        let error = CallError::new(ErrorKind::ToolFailed, "no 4711").with_hint("not 4711 either");
        let Decision::Rewrite { to: Err(message), .. } = redaction.decide(&Err(error)) else { panic!("it is kept") };
        assert_eq!(message, "no $0[…] (not $0[…] either)");
        let fine = CallError::new(ErrorKind::ToolFailed, "no");
        assert!(matches!(redaction.decide(&Err(fine)), Decision::Allow));
    }

    #[test]
    fn rejects_patterns_that_cannot_be_used() {
        check_refusal("(", "unclosed group");
        check_refusal("(?=a)", "look-around");
        check_refusal("a*", "empty text");
        check_refusal("((a{200}){200}){200}", "size limit");
        check_refusal(&"a".repeat(MAX_PATTERN_BYTES + 1), "4097 bytes");
    }

    fn check_refusal(pattern: &str, part: &str) {
        let error = redaction(pattern).unwrap_err().to_string();
        assert!(error.contains(part), "{pattern}: {error}");
    }
}
