//! The parts that a service depends on, such as its event log: whether they work, and what they measure.

/// A part of a service without which calls fail.
///
/// A listener answers its readiness check with 503 while a dependency is lost, and the metrics of a service have its measurements.
///
/// ```
/// use fumehood_core::dependency::{Dependency, Measurement, Metric};
///
/// /// A pool of connections to a database that tools need.
/// struct Pool {
///     free: usize,
/// }
///
/// static FREE: Metric = Metric::gauge("database_connections_free", "Connections that no call uses");
///
/// impl Dependency for Pool {
///     fn outage(&self) -> Option<&'static str> {
///         (self.free == 0).then_some("database")
///     }
///
///     fn metrics(&self) -> Vec<&'static Metric> {
///         vec![&FREE]
///     }
///
///     fn measurements(&self) -> Vec<Measurement> {
///         vec![FREE.value(self.free as f64)]
///     }
/// }
///
/// assert_eq!(Pool { free: 0 }.outage(), Some("database"));
/// ```
pub trait Dependency: Send + Sync {
    /// Returns the name of what is lost now, in the snake case of a key: clients without a token read it. `None` if calls can be
    /// made. Called for every check of readiness, so it must not wait.
    fn outage(&self) -> Option<&'static str>;

    /// Returns all metrics that it ever has measurements of. Asked for once.
    fn metrics(&self) -> Vec<&'static Metric>;

    /// Returns what is measured, as it is now.
    fn measurements(&self) -> Vec<Measurement>;
}

/// The way in which the value of a [`Metric`] changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MetricKind {
    /// It rises and falls.
    Gauge,
    /// It only rises while the process lives.
    Counter,
}

/// A metric of a dependency. Two with the same name are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Metric {
    /// The name without the prefix `fumehood_` and, for counters, without the suffix `_total`. It ends with its unit.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// How it changes.
    pub kind: MetricKind,
}

impl Metric {
    /// Describes a value that rises and falls.
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: MetricKind::Gauge }
    }

    /// Describes a value that only rises.
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: MetricKind::Counter }
    }

    /// Creates a measurement without labels.
    #[must_use]
    pub const fn value(&'static self, value: f64) -> Measurement {
        Measurement { metric: self, labels: Vec::new(), value }
    }
}

/// One value of a metric.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Measurement {
    /// What was measured.
    pub metric: &'static Metric,
    /// The labels. Their values are from a bounded set. All measurements of a metric have the same.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}

impl Measurement {
    /// Adds a label.
    #[must_use]
    pub fn label(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.labels.push((name, value.into()));
        self
    }
}
