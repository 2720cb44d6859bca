//! Head sampling of calls, before anything of a span is created.
//!
//! OpenTelemetry's sampler decides when a span is built already, which costs more than a short call may. So calls that begin a
//! trace are sampled by a filter, and the sampler takes those that passed it as they are.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::trace::{SpanKind, TraceContextExt as _, TraceId};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, SamplingResult, ShouldSample};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer;
use tracing_subscriber::registry::LookupSpan;

use fumehood_core::telemetry::{EXECUTE_TOOL, HOST_CALL, HTTP_REQUEST, TARGET};

/// The share of traces that is collected.
#[derive(Debug)]
pub(crate) struct SamplingRatio {
    /// Traces are collected if a random number is below this.
    threshold: u64,
    state: AtomicU64,
}

/// A filter that collects a share of the calls without a parent.
#[derive(Debug)]
pub(crate) struct CallFilter(pub(crate) SamplingRatio);

impl SamplingRatio {
    /// Creates a ratio from 0 to 1.
    pub(crate) fn new(ratio: f64) -> Self {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within the bounds of u64; it saturates"
        )]
        let threshold = if ratio >= 1.0 { u64::MAX } else { (ratio.max(0.0) * u64::MAX as f64) as u64 };
        Self { threshold, state: AtomicU64::new(RandomState::new().hash_one(0)) }
    }

    /// Decides on the next trace: SplitMix64 over a counter, so that callers share no lock.
    pub(crate) fn is_sampled(&self) -> bool {
        if self.threshold == u64::MAX {
            return true;
        }
        let mut number = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ (number >> 31)) < self.threshold
    }
}

impl<S: Subscriber + for<'l> LookupSpan<'l>> layer::Filter<S> for CallFilter {
    fn enabled(&self, metadata: &Metadata<'_>, context: &layer::Context<'_, S>) -> bool {
        if metadata.target() != TARGET {
            return false;
        }
        match metadata.name() {
            EXECUTE_TOOL => context.lookup_current().is_some() || self.0.is_sampled(),
            // Those of a call that is not collected would begin traces of their own.
            HOST_CALL | HTTP_REQUEST => context.lookup_current().is_some(),
            _ => true,
        }
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match metadata.name() {
            _ if metadata.target() != TARGET => Interest::never(),
            EXECUTE_TOOL | HOST_CALL | HTTP_REQUEST => Interest::sometimes(),
            _ => Interest::always(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }
}

/// The sampler behind a [`CallFilter`].
#[derive(Debug, Clone)]
pub(crate) struct FilteredSampler(pub(crate) Sampler);

impl ShouldSample for FilteredSampler {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[opentelemetry::trace::Link],
    ) -> SamplingResult {
        let mut result = self.0.should_sample(parent, trace, name, kind, attributes, links);
        let has_parent = parent.is_some_and(|parent| parent.span().span_context().is_valid());
        let is_call = name.strip_prefix(EXECUTE_TOOL).is_some_and(|rest| rest.starts_with(' '));
        if is_call && !has_parent {
            result.decision = SamplingDecision::RecordAndSample;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_about_the_ratio() {
        assert_eq!((count_sampled(0.0), count_sampled(1.0), count_sampled(2.0)), (0, 10_000, 10_000));
        assert!((700..1_300).contains(&count_sampled(0.1)), "{}", count_sampled(0.1));
    }

    fn count_sampled(ratio: f64) -> usize {
        let ratio = SamplingRatio::new(ratio);
        (0..10_000).filter(|_| ratio.is_sampled()).count()
    }
}
