//! The headers of a distributed trace (W3C Trace Context).

use fumehood_core::trace_context::TraceContext;
use http::{HeaderMap, HeaderName};

/// The header with the parent of a request.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The header with what other systems add to a trace.
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Returns the context of a request if it has one `traceparent`, and that is valid.
pub(crate) fn parse_context(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let state = headers.get(TRACESTATE).and_then(|state| state.to_str().ok());
    TraceContext::parse(value.to_str().ok()?, state)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn two_parents_are_none() {
        let parent = HeaderValue::from_static("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let mut headers = HeaderMap::new();
        headers.append(TRACEPARENT, parent.clone());
        assert_eq!(parse_context(&headers).unwrap().traceparent(), parent.to_str().unwrap());
        headers.append(TRACEPARENT, parent);
        assert!(parse_context(&headers).is_none());
    }
}
