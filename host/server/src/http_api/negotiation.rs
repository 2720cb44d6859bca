//! Content negotiation: the media types of requests and responses (RFC 9110, section 12.5.1).

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

/// The form of a response to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `application/json`.
    Json,
    /// `text/event-stream`.
    Events,
}

/// Returns the form that the client prefers among `offered`, the first of them if it prefers none. `None` if it accepts
/// none of them.
pub(crate) fn negotiate(headers: &HeaderMap, offered: &[Form]) -> Option<Form> {
    if !headers.contains_key(ACCEPT) {
        return offered.first().copied();
    }
    let mut best = None;
    for form in offered {
        let quality = quality_of(headers, *form);
        if quality > best.map_or(0, |(_, quality)| quality) {
            best = Some((*form, quality));
        }
    }
    best.map(|(form, _)| form)
}

/// Returns the weight of the most specific range that includes the form, in thousandths.
fn quality_of(headers: &HeaderMap, form: Form) -> u32 {
    let (exact, kind) = match form {
        Form::Json => ("application/json", "application/*"),
        Form::Events => ("text/event-stream", "text/*"),
    };
    let mut found = (0, 0);
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    for range in values.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let specificity = match media.as_str() {
            media if media == exact => 3,
            media if media == kind => 2,
            "*/*" => 1,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let quality = weight
            .map_or(1000, |weight| weight.parse::<f32>().map_or(0, |weight| (weight.clamp(0.0, 1.0) * 1000.0) as u32));
        if specificity > found.0 {
            found = (specificity, quality);
        }
    }
    found.1
}

/// Returns whether the body of a request is JSON, as its one `Content-Type` says.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let essence = value.to_str().ok().and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check_form(accept: &str, expected: Option<Form>) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
        assert_eq!(negotiate(&headers, &[Form::Json, Form::Events]), expected, "{accept}");
    }

    #[test]
    fn selects_the_form_of_the_largest_weight() {
        check_form("*/*", Some(Form::Json));
        check_form("application/json", Some(Form::Json));
        check_form("text/event-stream", Some(Form::Events));
        check_form("text/event-stream, application/json", Some(Form::Json));
        check_form("application/json;q=0.5, text/event-stream", Some(Form::Events));
        check_form("application/json;q=0, */*", Some(Form::Events));
        check_form("TEXT/*;q=0.2", Some(Form::Events));
        check_form("application/json;q=0", None);
        check_form("text/html, image/png", None);
        check_form("", None);
        assert_eq!(negotiate(&HeaderMap::new(), &[Form::Json, Form::Events]), Some(Form::Json));
    }
}
