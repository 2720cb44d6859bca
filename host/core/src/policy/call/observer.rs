//! An observer that receives nothing of a result before hooks have decided on it.

use std::sync::Arc;
use std::time::Duration;

use crate::call::event::{Level, Progress};
use crate::call::result::RequestReport;
use crate::call::{Observer, Usage};

/// Wraps an observer so that it receives no partial results and no messages of progress. Log lines, which are for
/// operators, reports of requests and the completed fraction stay.
#[must_use]
pub fn without_partial_results(observer: Arc<dyn Observer>) -> Arc<dyn Observer> {
    Arc::new(WithoutPartialResults(observer))
}

struct WithoutPartialResults(Arc<dyn Observer>);

impl Observer for WithoutPartialResults {
    fn log(&self, level: Level, message: &str) {
        self.0.log(level, message);
    }

    fn progress(&self, progress: Progress) {
        if progress.fraction.is_some() {
            self.0.progress(Progress { fraction: progress.fraction, message: None, partial: Vec::new() });
        }
    }

    fn admitted(&self, deadline: Duration) {
        self.0.admitted(deadline);
    }

    fn usage(&self, usage: Usage) {
        self.0.usage(usage);
    }

    fn request(&self, request: RequestReport) {
        self.0.request(request);
    }
}
