//! The `traceparent` header (W3C Trace Context).

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Returns the `traceparent` of a request if it is valid; an invalid one is to be ignored (section 2.2.2).
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    value.to_str().ok().filter(|text| is_valid(text)).map(|_| value)
}

fn is_valid(text: &str) -> bool {
    let mut parts = text.splitn(5, '-');
    let [version, trace, parent, flags] = std::array::from_fn(|_| parts.next().unwrap_or_default());
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
    };
    let is_set = |text: &str| text.bytes().any(|c| c != b'0');
    // A later version may have more parts; version 00 has four.
    let has_valid_end = version != "00" || parts.next().is_none();
    is_hex(version, 2)
        && version != "ff"
        && has_valid_end
        && is_hex(trace, 32)
        && is_set(trace)
        && is_hex(parent, 16)
        && is_set(parent)
        && is_hex(flags, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_valid_headers_only() {
        let (trace, parent) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let check = |text: String, expected: bool| assert_eq!(is_valid(&text), expected, "{text}");
        check(format!("00-{trace}-{parent}-01"), true);
        check(format!("01-{trace}-{parent}-01-more"), true);
        check(format!("00-{trace}-{parent}-01-more"), false);
        check(format!("ff-{trace}-{parent}-01"), false);
        check(format!("00-{}-{parent}-01", trace.to_uppercase()), false);
        check(format!("00-{}-{parent}-01", "0".repeat(32)), false);
        check(format!("00-{trace}-{}-01", "0".repeat(16)), false);
        check(format!("00-{trace}-{parent}"), false);
        check(String::new(), false);
    }
}
