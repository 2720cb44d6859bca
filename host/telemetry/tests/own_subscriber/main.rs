//! Telemetry as one layer of a subscriber that the embedding program installs. A process has one subscriber, so this test is
//! alone in its binary.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fumehood_core::{log, telemetry};
use fumehood_telemetry::{ExportOptions, Telemetry, TelemetryError};
use fumehood_tests::otlp_collector::Collector;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// The layer of an embedding program, which keeps the names of events.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<Vec<&'static str>>>);

impl<S: Subscriber> Layer<S> for Names {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.lock().unwrap().push(event.metadata().name());
    }
}

#[test]
fn own_subscriber_prints_events_next_to_telemetry() {
    let collector = Collector::start().unwrap();
    let options = ExportOptions {
        endpoint: Some(collector.endpoint().parse().unwrap()),
        span_interval: Duration::from_millis(20),
        ..ExportOptions::default()
    };
    let telemetry = Telemetry::start(&options, |warning| panic!("{warning}")).unwrap();
    let names = Names::default();
    // A filter of this layer alone: spans are exported whatever it prints.
    let printing = names.clone().with_filter(LevelFilter::WARN);
    let subscriber = tracing_subscriber::registry().with(printing).with(telemetry.layer());
    tracing::subscriber::set_global_default(subscriber).unwrap();

    let call = telemetry::call_span("own__call", "id-1");
    call.in_scope(|| {
        log::emit_unloaded("own");
        log::emit_worker_died("own", Some(7), "it was killed");
    });
    drop(call);
    let exported = collector.span("execute_tool own__call").unwrap();
    assert_eq!(exported.attributes["gen_ai.tool.name"], "own__call");
    assert!(!exported.attributes.contains_key("component"), "{exported:?}");
    assert_eq!(*names.0.lock().unwrap(), ["worker.died"]);

    let again = Telemetry::start(&options, |warning| panic!("{warning}")).unwrap_err();
    assert!(matches!(again, TelemetryError::Started), "{again}");
    let installed = Telemetry::install(&ExportOptions::default(), |warning| panic!("{warning}")).unwrap_err();
    assert!(matches!(installed, TelemetryError::Installed), "{installed}");
}
