//! The context of a distributed trace (W3C Trace Context), and the port to whatever collects spans.

use std::fmt;
use std::sync::OnceLock;

use tracing::Span;

use crate::persistence::Persistence;

/// Maximum length of a `tracestate` that is passed on, in bytes (W3C Trace Context, section 3.3.1.5).
const MAX_TRACESTATE_BYTES: usize = 512;

/// A valid `traceparent`, with the `tracestate` beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
    decides_sampling: bool,
}

impl TraceContext {
    /// Parses the values of a request. Returns `None` if `traceparent` is invalid, which is to be ignored (section 2.2.2).
    /// A `tracestate` that is too long or not printable ASCII is left out.
    #[must_use]
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let is_valid_state = |state: &&str| {
            let is_printable = |c: u8| c == b' ' || c.is_ascii_graphic();
            !state.is_empty() && state.len() <= MAX_TRACESTATE_BYTES && state.bytes().all(is_printable)
        };
        let tracestate = tracestate.filter(is_valid_state).map(str::to_owned);
        let traceparent = is_valid(traceparent).then(|| traceparent.to_owned())?;
        Some(Self { traceparent, tracestate, decides_sampling: true })
    }

    /// Sets whether its flag decides if spans below it are collected, which is the default. Whoever sends the context of a
    /// request could otherwise have everything collected, or nothing (section 3.2.2.5.1).
    #[must_use]
    pub fn with_sampling_decision(self, decides_sampling: bool) -> Self {
        Self { decides_sampling, ..self }
    }

    /// Returns whether its flag decides if spans below it are collected.
    #[must_use]
    pub fn decides_sampling(&self) -> bool {
        self.decides_sampling
    }

    /// Returns the value of `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// Returns the value of `tracestate`.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// Returns the id of the trace: 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> &str {
        self.traceparent.split('-').nth(1).unwrap_or_default()
    }

    /// Returns whether the trace is recorded by whoever began it (section 3.2.2.5.1).
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        let flags = self.traceparent.split('-').nth(3).unwrap_or_default();
        u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1)
    }
}

fn is_valid(text: &str) -> bool {
    let mut parts = text.splitn(5, '-');
    let [version, trace, parent, flags] = std::array::from_fn(|_| parts.next().unwrap_or_default());
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

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
}

fn is_set(text: &str) -> bool {
    text.bytes().any(|c| c != b'0')
}

/// The port to the collector of spans, which knows their place in distributed traces.
///
/// Its methods run on the path of a call and must not block.
pub trait TraceBridge: Send + Sync {
    /// Makes a span of another process the parent of one that was just created. Unless [`TraceContext::decides_sampling`], the
    /// span is collected as often as one without a parent.
    fn set_parent(&self, span: &Span, parent: &TraceContext);

    /// Returns the context of a span; `None` if it is not collected.
    fn context(&self, span: &Span) -> Option<TraceContext>;

    /// Returns whether requests to other processes carry the context of their span.
    fn propagates(&self) -> bool;

    /// Returns the part of the calls of a tool that spans have, by its full name. Default: nothing.
    fn persistence(&self, tool: &str) -> Persistence {
        let _ = tool;
        Persistence::Nothing
    }
}

/// The collector of this process. Like the subscriber of `tracing`, there is one at most.
static BRIDGE: OnceLock<Box<dyn TraceBridge>> = OnceLock::new();

/// The error of installing a second collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this process already has a trace collector")]
pub struct BridgeError;

/// Installs the collector of this process.
///
/// # Errors
/// If there is one already.
pub fn install_bridge(bridge: Box<dyn TraceBridge>) -> Result<(), BridgeError> {
    BRIDGE.set(bridge).map_err(|_| BridgeError)
}

/// Makes `parent` the parent of a span that was just created. Does nothing without a collector.
pub fn set_parent(span: &Span, parent: Option<&TraceContext>) {
    if let (Some(bridge), Some(parent)) = (BRIDGE.get(), parent) {
        bridge.set_parent(span, parent);
    }
}

/// Returns the context of the current span for a request to another process; `None` without a collector, or if it does not
/// pass contexts on.
#[must_use]
pub fn outgoing() -> Option<TraceContext> {
    BRIDGE.get().filter(|bridge| bridge.propagates())?.context(&Span::current())
}

/// Returns the context of a span; `None` without a collector.
#[must_use]
pub fn context_of(span: &Span) -> Option<TraceContext> {
    BRIDGE.get()?.context(span)
}

/// Returns the part of the calls of a tool that spans have: nothing without a collector.
pub(crate) fn persistence(tool: &str) -> Persistence {
    BRIDGE.get().map_or(Persistence::Nothing, |bridge| bridge.persistence(tool))
}

/// Returns the context of the current span; `None` without a collector.
#[must_use]
pub fn current() -> Option<TraceContext> {
    context_of(&Span::current())
}

impl fmt::Debug for dyn TraceBridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TraceBridge")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const PARENT: &str = "b7ad6b7169203331";

    #[test]
    fn accepts_valid_values_only() {
        fn check(text: String, expected: bool) {
            assert_eq!(is_valid(&text), expected, "{text}");
        }

        check(format!("00-{TRACE}-{PARENT}-01"), true);
        check(format!("01-{TRACE}-{PARENT}-01-more"), true);
        check(format!("00-{TRACE}-{PARENT}-01-more"), false);
        check(format!("ff-{TRACE}-{PARENT}-01"), false);
        check(format!("00-{}-{PARENT}-01", TRACE.to_uppercase()), false);
        check(format!("00-{}-{PARENT}-01", "0".repeat(32)), false);
        check(format!("00-{TRACE}-{}-01", "0".repeat(16)), false);
        check(format!("00-{TRACE}-{PARENT}"), false);
        check(String::new(), false);
    }

    #[test]
    fn reads_the_trace_and_its_flag() {
        let context = TraceContext::parse(&format!("00-{TRACE}-{PARENT}-01"), Some("a=1")).unwrap();
        assert_eq!((context.trace_id(), context.is_sampled()), (TRACE, true));
        assert_eq!(context.tracestate(), Some("a=1"));
        let context = TraceContext::parse(&format!("00-{TRACE}-{PARENT}-02"), Some("a=\n")).unwrap();
        assert_eq!((context.is_sampled(), context.tracestate()), (false, None));
    }
}
