//! The values of secrets in what a tool says: found in every usual spelling, and replaced by the secret's name.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, percent_encode_byte};
use serde_json::Value;
use url::form_urlencoded;

use crate::content::{Content, JsonText};
use crate::permission::Secret;
use crate::result::{CallError, Captured, Metadata};
use crate::untrusted::PrintableText;

/// What no encoder leaves out: everything but the characters that never need it.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// The same with those that JavaScript's `encodeURIComponent` leaves as they are.
const SCRIPT: &AsciiSet = &COMPONENT.remove(b'!').remove(b'\'').remove(b'(').remove(b')').remove(b'*');

/// Bytes of the shortest value that is looked for.
const SHORTEST: usize = 4;

/// Finds the values of secrets and writes `[secret NAME]` in their place.
///
/// It knows each value as it is, in base64 (both alphabets, padded or not, alone or anywhere inside a longer text), in
/// the percent encodings that are in use, and as it stands in a JSON string. One pass over a text finds all of them.
/// A value that was split, or encoded in some other way, is not found.
#[derive(Debug, Clone)]
pub struct Redactor {
    search: AhoCorasick,
    /// For each pattern of the search.
    placeholders: Vec<String>,
}

/// The search cannot be built.
#[derive(Debug, thiserror::Error)]
#[error("the secrets are too many or too long to be looked for in what a tool says")]
pub struct RedactError(#[from] aho_corasick::BuildError);

impl Redactor {
    /// For these secrets; nothing if there are none.
    ///
    /// # Errors
    /// If they are too many to be looked for.
    pub fn new(secrets: &[Secret]) -> Result<Option<Self>, RedactError> {
        Self::of(secrets.iter().map(|secret| (secret.placeholder(), secret.value().expose())))
    }

    /// For values that go elsewhere than into requests of a tool, each with its name; nothing if there are none. A value
    /// of less than four bytes cannot be told from ordinary text and is not looked for.
    ///
    /// # Errors
    /// If they are too many to be looked for.
    pub fn of_values<'a>(values: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Option<Self>, RedactError> {
        let long = values.into_iter().filter(|(_, value)| value.len() >= SHORTEST);
        Self::of(long.map(|(name, value)| (format!("[secret {name}]"), value)))
    }

    fn of<'a>(values: impl Iterator<Item = (String, &'a str)>) -> Result<Option<Self>, RedactError> {
        // One name for each spelling, should two secrets share one.
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

    /// The text without the values. One that has none is not copied.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.search.is_match(text) {
            return Cow::Borrowed(text);
        }
        Cow::Owned(self.search.replace_all(text, &self.placeholders))
    }

    /// The same for bytes.
    #[must_use]
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if !self.search.is_match(bytes) {
            return Cow::Borrowed(bytes);
        }
        Cow::Owned(self.search.replace_all_bytes(bytes, &self.placeholders))
    }

    /// The text in place.
    pub fn in_text(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.text(text) {
            *text = clean;
        }
    }

    /// Printable text in place.
    pub fn in_printable(&self, text: &mut PrintableText) {
        let clean = match self.text(text) {
            Cow::Owned(clean) => clean,
            Cow::Borrowed(_) => return,
        };
        text.revise(clean);
    }

    /// A part of a result. JSON stays JSON: a value is found in names, strings and numbers, however they are escaped.
    pub fn in_content(&self, content: &mut Content) {
        match content {
            Content::Text { text } => self.in_text(text.expose_raw_mut()),
            Content::Json { value } => self.in_json(value),
            Content::Blob { mime_type, data } => {
                self.in_text(mime_type.expose_raw_mut());
                if let Cow::Owned(clean) = self.bytes(data) {
                    *data = clean;
                }
            }
            Content::Link { uri, title, mime_type } => {
                self.in_text(uri.expose_raw_mut());
                title.iter_mut().chain(mime_type).for_each(|text| self.in_text(text.expose_raw_mut()));
            }
        }
    }

    /// Why a call failed.
    pub fn in_error(&self, error: &mut CallError) {
        let texts = std::iter::once(&mut error.message).chain(&mut error.hint).chain(&mut error.backtrace);
        texts.for_each(|text| self.in_printable(text));
    }

    /// What a tool wrote and tried.
    pub fn in_metadata(&self, metadata: &mut Metadata) {
        let in_stream = |stream: &mut Captured| self.in_text(stream.text.expose_raw_mut());
        in_stream(&mut metadata.stdout);
        in_stream(&mut metadata.stderr);
        for refusal in &mut metadata.refused {
            self.in_text(&mut refusal.tried);
            self.in_text(&mut refusal.because);
            refusal.allow.iter_mut().for_each(|text| self.in_text(text));
        }
        metadata.exhausted.iter_mut().for_each(|text| self.in_text(text));
    }

    fn in_json(&self, json: &mut JsonText) {
        // Without an escape, what stands in the text is what a reader gets.
        if !json.expose_raw().contains('\\') && !self.search.is_match(json.expose_raw()) {
            return;
        }
        let Ok(mut value) = json.read::<Value>() else { return };
        if self.in_value(&mut value)
            && let Ok(clean) = JsonText::parse(value.to_string())
        {
            *json = clean;
        }
    }

    /// Whether anything was found. The nesting of JSON that was parsed once is bounded.
    fn in_value(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => match self.text(&number.to_string()) {
                Cow::Borrowed(_) => false,
                Cow::Owned(clean) => {
                    *value = Value::String(clean);
                    true
                }
            },
            Value::String(text) => match self.text(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(clean) => {
                    *text = clean;
                    true
                }
            },
            Value::Array(items) => items.iter_mut().fold(false, |found, item| self.in_value(item) | found),
            Value::Object(fields) => {
                let mut found = false;
                let clean = std::mem::take(fields).into_iter().map(|(mut name, mut value)| {
                    if let Cow::Owned(clean) = self.text(&name) {
                        (name, found) = (clean, true);
                    }
                    found |= self.in_value(&mut value);
                    (name, value)
                });
                *fields = clean.collect();
                found
            }
        }
    }
}

/// Every spelling of a value that is looked for.
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
    for encoded in [percent(COMPONENT), percent(SCRIPT), percent(NON_ALPHANUMERIC), form, whole] {
        found.insert(lower_hex(&encoded));
        found.insert(encoded);
    }
    let quoted = Value::from(value).to_string();
    let escaped = quoted.trim_start_matches('"').strip_suffix('"').unwrap_or(&quoted);
    found.insert(escaped.to_owned());
    found.insert(escaped.replace('/', "\\/"));
    found
}

/// The characters of a longer base64 text that depend on nothing but the value, if it begins `offset` bytes after a
/// multiple of three: those that share bits with a neighbour are left out.
fn inside_base64(engine: &base64::engine::GeneralPurpose, bytes: &[u8], offset: usize) -> String {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(bytes);
    let encoded = engine.encode(&padded);
    let first = (offset * 8).div_ceil(6);
    let last = padded.len() * 8 / 6;
    encoded.get(first..last).unwrap_or(&encoded).to_owned()
}

/// The same with the digits of percent signs in lower case.
fn lower_hex(encoded: &str) -> String {
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
    use crate::error_kind::ErrorKind;
    use crate::permission::{Injection, Power, Refusal, SecretValue};
    use proptest::prelude::*;

    const VALUE: &str = "sk-Ab/12+\"x\" y?";

    fn redactor(value: &str) -> Redactor {
        let into = Injection::header("authorization", "{secret}").unwrap();
        let value = SecretValue::new(value).unwrap();
        let secret = Secret::new("api", value, "https://a.example/**", into).unwrap();
        Redactor::new(&[secret]).unwrap().unwrap()
    }

    #[test]
    fn values_have_their_names_and_short_ones_are_left_alone() {
        let redactor = Redactor::of_values([("KEY", "hush-hush"), ("PIN", "123")]).unwrap().unwrap();
        assert_eq!(redactor.text("hush-hush 123"), "[secret KEY] 123");
        assert!(Redactor::of_values([("PIN", "123")]).unwrap().is_none());
    }

    #[test]
    fn without_secrets_there_is_nothing_to_look_for() {
        assert!(Redactor::new(&[]).unwrap().is_none());
        assert!(matches!(redactor(VALUE).text("harmless"), Cow::Borrowed(_)));
    }

    #[test]
    fn every_usual_spelling_is_replaced() {
        let redactor = redactor(VALUE);
        let check = |spelling: &str| {
            let text = redactor.text(spelling).into_owned();
            assert_eq!(text, "[secret api]", "{spelling}");
        };
        check(VALUE);
        check(&BASE64_STANDARD.encode(VALUE));
        check(&BASE64_URL_SAFE_NO_PAD.encode(VALUE));
        check("sk-Ab%2F12%2B%22x%22%20y%3F");
        check("sk-Ab%2f12%2b%22x%22%20y%3f");
        check("sk-Ab%2F12%2B%22x%22+y%3F");
        check("sk%2DAb%2F12%2B%22x%22%20y%3F");
        check(r#"sk-Ab/12+\"x\" y?"#);
        check(r#"sk-Ab\/12+\"x\" y?"#);
        let whole: String = VALUE.bytes().map(|byte| format!("%{byte:02x}")).collect();
        check(&whole);
        assert_eq!(redactor.text(&format!("a {VALUE} b {VALUE}")), "a [secret api] b [secret api]");
    }

    #[test]
    fn json_stays_json() {
        let redactor = redactor("31415926");
        let check = |json: &str, expected: &str| {
            let mut content = Content::json(json.to_owned()).unwrap();
            redactor.in_content(&mut content);
            let Content::Json { value } = content else { panic!("it stays JSON") };
            assert_eq!(value.expose_raw(), expected);
        };
        check(r#"{"b": 1.50, "a": "x\n"}"#, r#"{"b": 1.50, "a": "x\n"}"#);
        check(r#"{"a":31415926,"b":[2.31415926]}"#, r#"{"a":"[secret api]","b":["2.[secret api]"]}"#);
        check(r#"{"31415926":"it is 3141592\u0036"}"#, r#"{"[secret api]":"it is [secret api]"}"#);
    }

    #[test]
    fn everything_that_a_call_leaves_is_looked_at() {
        let redactor = redactor(VALUE);
        let mut parts = vec![
            Content::text(VALUE),
            Content::Blob { mime_type: VALUE.into(), data: VALUE.into() },
            Content::Link { uri: VALUE.into(), title: Some(VALUE.into()), mime_type: Some(VALUE.into()) },
        ];
        parts.iter_mut().for_each(|part| redactor.in_content(part));
        let mut error = CallError::new(ErrorKind::ToolFailed, VALUE).with_hint(VALUE);
        error.backtrace.push(VALUE.into());
        redactor.in_error(&mut error);
        let stream = || Captured { text: VALUE.into(), dropped: 0 };
        let (tried, allow) = (VALUE.to_owned(), Some(VALUE.to_owned()));
        let refused = vec![Refusal { power: Power::Http, tried, because: VALUE.to_owned(), allow }];
        let mut metadata = Metadata { stdout: stream(), stderr: stream(), refused, ..Metadata::default() };
        metadata.exhausted.push(VALUE.to_owned());
        redactor.in_metadata(&mut metadata);
        let shown = format!("{parts:?} {error:?} {metadata:?}");
        assert!(!shown.contains("sk-Ab") && shown.contains("[secret api]"), "{shown}");
        assert_eq!(parts[1].bytes(), 2 * "[secret api]".len());
    }

    proptest! {
        /// Wherever in a text that is then encoded: what is left of the value is at most a character on either side.
        #[test]
        fn base64_hides_a_value_at_no_offset(before in ".{0,9}", after in ".{0,9}", url_safe: bool) {
            let redactor = redactor(VALUE);
            let engine = if url_safe { &BASE64_URL_SAFE } else { &BASE64_STANDARD };
            let encoded = engine.encode(format!("{before}{VALUE}{after}"));
            let found = redactor.text(&encoded);
            prop_assert!(found.contains("[secret api]"), "{} of {:?}", encoded, before);
        }

        #[test]
        fn any_value_is_found_in_any_text(value in "[ -~]{4,40}", text in "\\PC{0,20}") {
            prop_assume!(SecretValue::new(value.as_str()).is_ok());
            let redactor = redactor(&value);
            let found = redactor.text(&format!("{text}{value}{text}")).replace("[secret api]", "");
            prop_assert!(!found.contains(&value) || "[secret api]".contains(&value) || text.contains(&value));
        }
    }
}
