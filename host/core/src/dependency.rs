//! The parts that a service depends on, such as its event log: whether they work, and what they measure.

/// A part of a service without which calls fail.
///
/// A listener answers its readiness check with 503 while a dependency is lost, and the metrics of a service have its measurements.
///
/// ```
/// use fumehood_core::dependency::{Dependency, Measurement};
///
/// /// A pool of connections to a database that tools need.
/// struct Pool {
///     free: usize,
/// }
///
/// impl Dependency for Pool {
///     fn outage(&self) -> Option<&'static str> {
///         (self.free == 0).then_some("database")
///     }
///
///     fn measurements(&self) -> Vec<Measurement> {
///         vec![Measurement::gauge("database_connections_free", "Connections that no call uses", self.free as f64)]
///     }
/// }
///
/// assert_eq!(Pool { free: 0 }.outage(), Some("database"));
/// ```
pub trait Dependency: Send + Sync {
    /// Returns the name of what is lost now, in the snake case of a key: clients without a token read it. `None` if calls can be
    /// made. Called for every check of readiness, so it must not wait.
    fn outage(&self) -> Option<&'static str>;

    /// Returns what is measured, as it is now. The names do not depend on the state.
    fn measurements(&self) -> Vec<Measurement>;
}

/// The way in which the value of a [`Measurement`] changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MeasurementKind {
    /// It rises and falls.
    Gauge,
    /// It only rises while the process lives.
    Counter,
}

/// One value of a metric.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Measurement {
    /// The name without the prefix `fumehood_` and, for counters, without the suffix `_total`. It ends with its unit.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// How it changes.
    pub kind: MeasurementKind,
    /// The labels. Their values are from a bounded set.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}

impl Measurement {
    /// Creates the value of a gauge without labels.
    #[must_use]
    pub fn gauge(name: &'static str, help: &'static str, value: f64) -> Self {
        Self { name, help, kind: MeasurementKind::Gauge, labels: Vec::new(), value }
    }

    /// Creates the value of a counter without labels.
    #[must_use]
    pub fn counter(name: &'static str, help: &'static str, value: f64) -> Self {
        Self { kind: MeasurementKind::Counter, ..Self::gauge(name, help, value) }
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.labels.push((name, value.into()));
        self
    }
}
