//! Redaction of secrets in the output of tools, in all common encodings.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, percent_encode_byte};
use serde_json::Value;
use url::form_urlencoded;

use crate::call::content::{Content, JsonText};
use crate::call::result::{CallError, CapturedStream, Metadata};
use crate::policy::permission::Secret;
use crate::text::untrusted::PrintableText;

/// The characters that every percent-encoder escapes: all but the unreserved ones (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// The characters that JavaScript's `encodeURIComponent` escapes.
const ENCODE_URI_COMPONENT: &AsciiSet = &RESERVED.remove(b'!').remove(b'\'').remove(b'(').remove(b')').remove(b'*');

/// Minimum length of a value that is searched for, in bytes. Shorter ones cannot be told from ordinary text.
const MIN_VALUE_BYTES: usize = 4;

/// A search for the values of secrets that replaces them by `[secret NAME]`.
///
/// It finds each value unencoded, in base64 (both alphabets, padded or not, alone or anywhere inside a longer text), in
/// the common percent encodings, and escaped in a JSON string. One pass over a text finds all of them.
/// A value that was split, or encoded in some other way, is not found.
///
/// ```
/// use fumehood_core::policy::redact::Redactor;
///
/// let redactor = Redactor::from_values([("api", "0123456789abcdef")])?.ok_or("there is a value")?;
/// assert_eq!(redactor.redact("the token is 0123456789abcdef"), "the token is [secret api]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Redactor {
    search: AhoCorasick,
    /// The replacement of each pattern of the search.
    placeholders: Vec<String>,
}

/// The error of secrets that are too many or too long for one search.
#[derive(Debug, thiserror::Error)]
#[error("there are too many or too long secrets to redact them in the output of a tool")]
pub struct RedactError(#[from] aho_corasick::BuildError);

impl Redactor {
    /// Creates a redactor for `secrets`; `None` if there are none.
    ///
    /// # Errors
    /// If they are too many or too long.
    pub fn new(secrets: &[Secret]) -> Result<Option<Self>, RedactError> {
        Self::build(secrets.iter().map(|secret| (secret.placeholder(), secret.value().expose())))
    }

    /// Creates a redactor for named values that are not injected into requests of a tool; `None` if there are none. A
    /// value of less than four bytes cannot be told from ordinary text and is ignored.
    ///
    /// # Errors
    /// If they are too many or too long.
    pub fn from_values<'a>(values: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Option<Self>, RedactError> {
        let long = values.into_iter().filter(|(_, value)| value.len() >= MIN_VALUE_BYTES);
        Self::build(long.map(|(name, value)| (format!("[secret {name}]"), value)))
    }

    fn build<'a>(values: impl Iterator<Item = (String, &'a str)>) -> Result<Option<Self>, RedactError> {
        // One placeholder for each spelling, in case two secrets share it.
        let mut patterns = BTreeMap::new();
        for (placeholder, value) in values {
            for spelling in spellings(value) {
                patterns.entry(spelling).or_insert_with(|| placeholder.clone());
            }
        }
        if patterns.is_empty() {
            return Ok(None);
        }
        let search = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(patterns.keys())?;
        Ok(Some(Self { search, placeholders: patterns.into_values().collect() }))
    }

    /// Replaces the values in a text. A text without any is not copied.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.search.is_match(text) {
            return Cow::Borrowed(text);
        }
        Cow::Owned(self.search.replace_all(text, &self.placeholders))
    }

    /// Like [`Self::redact`], for bytes.
    #[must_use]
    pub fn redact_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if !self.search.is_match(bytes) {
            return Cow::Borrowed(bytes);
        }
        Cow::Owned(self.search.replace_all_bytes(bytes, &self.placeholders))
    }

    /// Replaces the values in a text in place.
    pub fn redact_text(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.redact(text) {
            *text = clean;
        }
    }

    /// Like [`Self::redact_text`], for printable text.
    pub fn redact_printable(&self, text: &mut PrintableText) {
        let clean = match self.redact(text) {
            Cow::Owned(clean) => clean,
            Cow::Borrowed(_) => return,
        };
        text.revise(clean);
    }

    /// Replaces the values in a part of a result.
    ///
    /// JSON stays JSON: values are found in names, strings and numbers, however they are escaped.
    pub fn redact_content(&self, content: &mut Content) {
        match content {
            Content::Text { text } => self.redact_text(text.expose_raw_mut()),
            Content::Json { value } => self.redact_json(value),
            Content::Blob { mime_type, data } => {
                self.redact_text(mime_type.expose_raw_mut());
                if let Cow::Owned(clean) = self.redact_bytes(data) {
                    *data = clean;
                }
            }
            Content::Link { uri, title, mime_type } => {
                self.redact_text(uri.expose_raw_mut());
                title.iter_mut().chain(mime_type).for_each(|text| self.redact_text(text.expose_raw_mut()));
            }
        }
    }

    /// Replaces the values in all texts of a failure.
    pub fn redact_error(&self, error: &mut CallError) {
        let texts = std::iter::once(&mut error.message).chain(&mut error.hint).chain(&mut error.backtrace);
        texts.for_each(|text| self.redact_printable(text));
        if let Some(details) = &mut error.details {
            details.content.iter_mut().for_each(|part| self.redact_content(part));
            if let Some(data) = &mut details.data {
                self.redact_value(data.expose_raw_mut());
            }
        }
    }

    /// Replaces the values in the captured streams, refusals, exceeded quotas and members of a call.
    pub fn redact_metadata(&self, metadata: &mut Metadata) {
        let redact_stream = |stream: &mut CapturedStream| self.redact_text(stream.text.expose_raw_mut());
        redact_stream(&mut metadata.stdout);
        redact_stream(&mut metadata.stderr);
        for refusal in &mut metadata.refused {
            self.redact_text(&mut refusal.tried);
            self.redact_text(&mut refusal.because);
            refusal.allow.iter_mut().for_each(|text| self.redact_text(text));
        }
        metadata.exhausted.iter_mut().for_each(|text| self.redact_text(text));
        if let Some(members) = &mut metadata.members {
            for value in members.values_mut() {
                self.redact_value(value);
            }
        }
    }

    fn redact_json(&self, json: &mut JsonText) {
        // Without escapes, the text contains the parsed strings verbatim.
        if !json.expose_raw().contains('\\') && !self.search.is_match(json.expose_raw()) {
            return;
        }
        let Ok(mut value) = json.read::<Value>() else { return };
        if self.redact_value(&mut value)
            && let Ok(clean) = JsonText::parse(value.to_string())
        {
            *json = clean;
        }
    }

    /// Replaces the values in a JSON value, and returns whether there were any.
    ///
    /// Recursion is bounded, because parsed JSON has bounded nesting.
    pub fn redact_value(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => match self.redact(&number.to_string()) {
                Cow::Borrowed(_) => false,
                Cow::Owned(clean) => {
                    *value = Value::String(clean);
                    true
                }
            },
            Value::String(text) => match self.redact(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(clean) => {
                    *text = clean;
                    true
                }
            },
            Value::Array(items) => items.iter_mut().fold(false, |found, item| self.redact_value(item) | found),
            Value::Object(fields) => {
                let mut found = false;
                let clean = std::mem::take(fields).into_iter().map(|(mut name, mut value)| {
                    if let Cow::Owned(clean) = self.redact(&name) {
                        name = clean;
                        found = true;
                    }
                    found |= self.redact_value(&mut value);
                    (name, value)
                });
                *fields = clean.collect();
                found
            }
        }
    }
}

/// Returns all spellings of a value that are searched for.
fn spellings(value: &str) -> BTreeSet<String> {
    let bytes = value.as_bytes();
    let mut found = BTreeSet::from([value.to_owned()]);
    for engine in [&BASE64_STANDARD, &BASE64_STANDARD_NO_PAD, &BASE64_URL_SAFE, &BASE64_URL_SAFE_NO_PAD] {
        found.insert(engine.encode(bytes));
    }
    for engine in [&BASE64_STANDARD_NO_PAD, &BASE64_URL_SAFE_NO_PAD] {
        found.extend((0..3).map(|offset| inside_base64(engine, bytes, offset)));
    }
    let percent = |set| percent_encode(bytes, set).to_string();
    let form: String = form_urlencoded::byte_serialize(bytes).collect();
    let whole: String = bytes.iter().map(|byte| percent_encode_byte(*byte)).collect();
    for encoded in [percent(RESERVED), percent(ENCODE_URI_COMPONENT), percent(NON_ALPHANUMERIC), form, whole] {
        found.insert(lowercase_escapes(&encoded));
        found.insert(encoded);
    }
    let quoted = Value::from(value).to_string();
    let escaped = quoted.trim_start_matches('"').strip_suffix('"').unwrap_or(&quoted);
    found.insert(escaped.to_owned());
    found.insert(escaped.replace('/', "\\/"));
    found
}

/// Returns the characters of a longer base64 text that depend on the value alone, if it begins `offset` bytes after a
/// multiple of three. Characters that share bits with a neighbour are left out.
fn inside_base64(engine: &base64::engine::GeneralPurpose, bytes: &[u8], offset: usize) -> String {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(bytes);
    let encoded = engine.encode(&padded);
    let first = (offset * 8).div_ceil(6);
    let last = padded.len() * 8 / 6;
    encoded.get(first..last).unwrap_or(&encoded).to_owned()
}

/// Converts the hexadecimal digits of percent escapes to lower case.
fn lowercase_escapes(encoded: &str) -> String {
    let mut digits = 0;
    let lower = |c: char| {
        if c == '%' {
            digits = 2;
        } else if digits > 0 {
            digits -= 1;
            return c.to_ascii_lowercase();
        }
        c
    };
    encoded.chars().map(lower).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::error_kind::ErrorKind;
    use crate::call::{ErrorDetails, ResultMembers};
    use crate::policy::permission::{Injection, Power, Refusal, SecretValue};
    use crate::text::untrusted::Untrusted;
    use proptest::prelude::*;

    const VALUE: &str = "sk-Ab/12+\"x\" y?";

    fn redactor(value: &str) -> Redactor {
        let into = Injection::header("authorization", "{secret}").unwrap();
        let value = SecretValue::new(value).unwrap();
        let secret = Secret::new("api", value, "https://a.example/**", into).unwrap();
        Redactor::new(&[secret]).unwrap().unwrap()
    }

    #[test]
    fn replaces_values_by_name_and_ignores_short_ones() {
        let redactor = Redactor::from_values([("KEY", "hush-hush"), ("PIN", "123")]).unwrap().unwrap();
        assert_eq!(redactor.redact("hush-hush 123"), "[secret KEY] 123");
        assert!(Redactor::from_values([("PIN", "123")]).unwrap().is_none());
    }

    #[test]
    fn no_secrets_need_no_redactor() {
        assert!(Redactor::new(&[]).unwrap().is_none());
        assert!(matches!(redactor(VALUE).redact("harmless"), Cow::Borrowed(_)));
    }

    #[test]
    fn replaces_common_encodings() {
        fn check(redactor: &Redactor, spelling: &str) {
            let text = redactor.redact(spelling).into_owned();
            assert_eq!(text, "[secret api]", "{spelling}");
        }

        let redactor = redactor(VALUE);
        check(&redactor, VALUE);
        check(&redactor, &BASE64_STANDARD.encode(VALUE));
        check(&redactor, &BASE64_URL_SAFE_NO_PAD.encode(VALUE));
        check(&redactor, "sk-Ab%2F12%2B%22x%22%20y%3F");
        check(&redactor, "sk-Ab%2f12%2b%22x%22%20y%3f");
        check(&redactor, "sk-Ab%2F12%2B%22x%22+y%3F");
        check(&redactor, "sk%2DAb%2F12%2B%22x%22%20y%3F");
        check(&redactor, r#"sk-Ab/12+\"x\" y?"#);
        check(&redactor, r#"sk-Ab\/12+\"x\" y?"#);
        let whole: String = VALUE.bytes().map(|byte| format!("%{byte:02x}")).collect();
        check(&redactor, &whole);
        assert_eq!(redactor.redact(&format!("a {VALUE} b {VALUE}")), "a [secret api] b [secret api]");
    }

    #[test]
    fn json_stays_json() {
        fn check(redactor: &Redactor, json: &str, expected: &str) {
            let mut content = Content::json(json.to_owned()).unwrap();
            redactor.redact_content(&mut content);
            let Content::Json { value } = content else { panic!("it stays JSON") };
            assert_eq!(value.expose_raw(), expected);
        }

        let redactor = redactor("31415926");
        check(&redactor, r#"{"b": 1.50, "a": "x\n"}"#, r#"{"b": 1.50, "a": "x\n"}"#);
        check(&redactor, r#"{"a":31415926,"b":[2.31415926]}"#, r#"{"a":"[secret api]","b":["2.[secret api]"]}"#);
        check(&redactor, r#"{"31415926":"it is 3141592\u0036"}"#, r#"{"[secret api]":"it is [secret api]"}"#);
    }

    #[test]
    fn redacts_all_texts_of_a_result() {
        fn stream() -> CapturedStream {
            CapturedStream { text: VALUE.into(), dropped: 0 }
        }

        fn member() -> Option<Untrusted<Value>> {
            Some(Untrusted::new(serde_json::json!([{ "a": VALUE }])))
        }

        let redactor = redactor(VALUE);
        let mut parts = vec![
            Content::text(VALUE),
            Content::Blob { mime_type: VALUE.into(), data: VALUE.into() },
            Content::Link { uri: VALUE.into(), title: Some(VALUE.into()), mime_type: Some(VALUE.into()) },
        ];
        parts.iter_mut().for_each(|part| redactor.redact_content(part));
        let mut error = CallError::new(ErrorKind::ToolFailed, VALUE).with_hint(VALUE);
        error.backtrace.push(VALUE.into());
        error = error.with_details(ErrorDetails { content: vec![Content::text(VALUE)], code: None, data: member() });
        redactor.redact_error(&mut error);
        let tried = VALUE.to_owned();
        let allow = Some(VALUE.to_owned());
        let refused = vec![Refusal { power: Power::Http, tried, because: VALUE.to_owned(), allow }];
        let mut metadata = Metadata { stdout: stream(), stderr: stream(), refused, ..Metadata::default() };
        metadata.exhausted.push(VALUE.to_owned());
        metadata.members = Some(Box::new(ResultMembers { meta: member(), parts: member() }));
        redactor.redact_metadata(&mut metadata);
        let shown = format!("{parts:?} {error:?} {metadata:?}");
        assert!(!shown.contains("sk-Ab") && shown.contains("[secret api]"), "{shown}");
        assert_eq!(parts[1].bytes(), 2 * "[secret api]".len());
    }

    proptest! {
        /// Covers every offset in the encoded text. At most one character on either side remains of the value.
        #[test]
        fn finds_value_in_base64_at_any_offset(before in ".{0,9}", after in ".{0,9}", url_safe: bool) {
            let redactor = redactor(VALUE);
            let engine = if url_safe { &BASE64_URL_SAFE } else { &BASE64_STANDARD };
            let encoded = engine.encode(format!("{before}{VALUE}{after}"));
            let found = redactor.redact(&encoded);
            prop_assert!(found.contains("[secret api]"), "{} of {:?}", encoded, before);
        }

        #[test]
        fn finds_any_value_in_any_text(value in "[ -~]{4,40}", text in "\\PC{0,20}") {
            prop_assume!(SecretValue::new(value.as_str()).is_ok());
            let redactor = redactor(&value);
            let found = redactor.redact(&format!("{text}{value}{text}")).replace("[secret api]", "");
            prop_assert!(!found.contains(&value) || "[secret api]".contains(&value) || text.contains(&value));
        }
    }
}
