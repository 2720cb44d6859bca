//! The place of spans in distributed traces, as OpenTelemetry's layer knows it.

use std::fmt;

use fumehood_core::persistence::Persistence;
use fumehood_core::trace_context::{TraceBridge, TraceContext};
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::options::ContentPolicy;
use crate::sampling::SamplingRatio;

/// The bridge to OpenTelemetry's layer.
pub(crate) struct OpenTelemetryBridge {
    pub(crate) propagates: bool,
    pub(crate) content: Option<ContentPolicy>,
    /// Decides for parents that do not.
    pub(crate) ratio: SamplingRatio,
}

impl fmt::Debug for OpenTelemetryBridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTelemetryBridge").field("propagates", &self.propagates).finish_non_exhaustive()
    }
}

impl TraceBridge for OpenTelemetryBridge {
    fn set_parent(&self, span: &Span, parent: &TraceContext) {
        if let Some(parent) = to_span_context(parent, self.samples(parent)) {
            // It fails for a span that no layer collects, which has no use for a parent.
            let _not_collected = span.set_parent(Context::new().with_remote_span_context(parent));
        }
    }

    fn context(&self, span: &Span) -> Option<TraceContext> {
        let context = span.context();
        let span = context.span();
        let found = span.span_context();
        if !found.is_valid() {
            return None;
        }
        let trace = found.trace_id();
        let parent = found.span_id();
        let flags = found.trace_flags().to_u8();
        let state = found.trace_state().header();
        TraceContext::parse(&format!("00-{trace}-{parent}-{flags:02x}"), Some(&state))
    }

    fn propagates(&self) -> bool {
        self.propagates
    }

    fn persistence(&self, tool: &str) -> Persistence {
        self.content.as_ref().map_or(Persistence::Nothing, |content| content(tool))
    }
}

impl OpenTelemetryBridge {
    /// Decides whether spans below a parent are collected.
    fn samples(&self, parent: &TraceContext) -> bool {
        if parent.decides_sampling() { parent.is_sampled() } else { self.ratio.is_sampled() }
    }
}

fn to_span_context(context: &TraceContext, is_sampled: bool) -> Option<SpanContext> {
    let mut parts = context.traceparent().split('-').skip(1);
    let trace = TraceId::from_hex(parts.next()?).ok()?;
    let parent = SpanId::from_hex(parts.next()?).ok()?;
    let flags = if is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let state = context.tracestate().and_then(|state| state.parse::<TraceState>().ok()).unwrap_or_default();
    Some(SpanContext::new(trace, parent, flags, true, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_the_right_does_not_decide() {
        let bridge = |ratio| OpenTelemetryBridge { propagates: true, content: None, ratio: SamplingRatio::new(ratio) };
        let never = bridge(0.0);
        let always = bridge(1.0);
        assert!(never.samples(&parse_context("01")) && !always.samples(&parse_context("00")));
        assert!(!never.samples(&parse_context("01").with_sampling_decision(false)));
        assert!(always.samples(&parse_context("00").with_sampling_decision(false)));
    }

    fn parse_context(flags: &str) -> TraceContext {
        let text = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
        TraceContext::parse(&text, None).unwrap()
    }

    #[test]
    fn keeps_ids_flag_and_state() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = to_span_context(&TraceContext::parse(text, Some("a=1")).unwrap(), true).unwrap();
        assert_eq!(context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(context.span_id().to_string(), "b7ad6b7169203331");
        assert!(context.is_sampled() && context.is_remote());
        assert_eq!(context.trace_state().header(), "a=1");
    }
}
