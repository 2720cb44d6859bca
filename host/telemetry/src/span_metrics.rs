//! Durations of host functions, HTTP requests and requests to models, from their spans, and the number of repairs, from their
//! events.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use fumehood_core::telemetry::{CHAT, HOST_CALL, HOST_CALL_FIELD, HTTP_REQUEST, PROVIDER_NAME, REPAIR_FIELD, TARGET};
use fumehood_core::trace_context;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::histograms::Exemplar;
use crate::metrics::Metrics;

/// A layer that measures spans of host functions and requests.
pub(crate) struct SpanMetrics(pub(crate) Arc<Metrics>);

/// The spans that are measured.
pub(crate) struct MeasuredSpans;

impl<S> Filter<S> for MeasuredSpans {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        is_measured(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_measured(metadata) { Interest::always() } else { Interest::never() }
    }
}

fn is_measured(metadata: &Metadata<'_>) -> bool {
    if metadata.target() != TARGET {
        return false;
    }
    let is_repair = metadata.is_event() && metadata.fields().field(REPAIR_FIELD).is_some();
    is_repair || [CHAT, HOST_CALL, HTTP_REQUEST].contains(&metadata.name())
}

/// The start of a span, the value of its label, and the trace that it is part of.
struct SpanStart {
    at: Instant,
    label: String,
    exemplar: Exemplar,
}

/// Takes the value of the one field that becomes a label, from a closed set.
#[derive(Default)]
struct LabelVisitor(String);

impl Visit for LabelVisitor {
    fn record_str(&mut self, field: &Field, value: &str) {
        if [HOST_CALL_FIELD, PROVIDER_NAME, REPAIR_FIELD].contains(&field.name()) {
            value.clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for SpanMetrics {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut label = LabelVisitor::default();
        attributes.record(&mut label);
        // The trace of the span around it. When the new one closes, its own is not known any more.
        let exemplar = Exemplar::new(trace_context::current().as_ref());
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(SpanStart { at: Instant::now(), label: label.0, exemplar });
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut kind = LabelVisitor::default();
        event.record(&mut kind);
        self.0.record_repair(kind.0);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(SpanStart { at, label, exemplar }) = span.extensions_mut().remove::<SpanStart>() else { return };
        let duration = at.elapsed();
        match span.metadata().name() {
            HOST_CALL => self.0.record_host_call(&label, duration, &exemplar),
            CHAT => self.0.record_model_request(&label, duration, &exemplar),
            _ => self.0.record_http_request(duration, &exemplar),
        }
    }
}
