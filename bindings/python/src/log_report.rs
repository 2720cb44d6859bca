//! The verification of an event log, as Python sees it.

use fumehood::event_log::Report;
use pyo3::prelude::*;

/// The result of verifying an event log.
#[pyclass(frozen, get_all, module = "fumehood")]
#[derive(Debug)]
pub(crate) struct LogReport {
    /// Number of rows that were checked.
    rows: u64,
    /// The last row with a valid seal: up to here, any change without the key is detected.
    sealed_up_to: u64,
    /// The first problem, if any.
    finding: Option<String>,
}

impl From<Report> for LogReport {
    fn from(report: Report) -> Self {
        let finding = report.finding.map(|finding| finding.to_string());
        Self { rows: report.rows, sealed_up_to: report.sealed_up_to, finding }
    }
}

#[pymethods]
impl LogReport {
    #[getter]
    fn ok(&self) -> bool {
        self.finding.is_none()
    }

    fn __repr__(&self) -> String {
        let finding = self.finding.as_ref().map_or_else(|| "None".to_owned(), |finding| format!("{finding:?}"));
        format!("LogReport(rows={}, sealed_up_to={}, finding={finding})", self.rows, self.sealed_up_to)
    }
}
