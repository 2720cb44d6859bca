//! Progress and log notifications of a running call. They never block the guest, and are never more than a client can
//! take.
#![allow(deprecated, reason = "logging is on its way out of the protocol, and clients of older revisions have it")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fumehood_core::call::Observer;
use fumehood_core::call::event::{Level, Progress};
use fumehood_core::text::untrusted::PrintableText;
use rmcp::model::{LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::log_level;

/// Maximum number of queued progress reports; beyond it, the newest replaces the one before.
const MAX_QUEUED_REPORTS: usize = 8;
/// Maximum number of queued log lines; beyond it, the oldest are dropped, and counted.
const MAX_QUEUED_LINES: usize = 64;
/// Minimum interval between two notifications of one call after [`MAX_BURST_MESSAGES`].
const MIN_INTERVAL: Duration = Duration::from_millis(2);
/// Number of notifications of one call that are sent without an interval.
const MAX_BURST_MESSAGES: u32 = 32;

/// One notification about a call.
#[derive(Debug, PartialEq)]
pub(crate) enum Notification {
    /// A progress report. `done` grows with every report; `total` is 1 if the tool reports fractions.
    Progress {
        /// The `progress` of the protocol.
        done: f64,
        /// The `total` of the protocol.
        total: Option<f64>,
        /// A description of the current step.
        message: Option<PrintableText>,
    },
    /// A log line.
    Log(Level, PrintableText),
    /// The number of log lines that were dropped at this point.
    Dropped(u64),
}

/// The queued notifications of one call.
pub(crate) struct Outbox {
    wants_progress: bool,
    /// The minimum level of log lines that the client requested; `None` for no log lines.
    level: Option<Level>,
    queued: Mutex<QueueState>,
    arrived: Notify,
}

#[derive(Default)]
struct QueueState {
    queue: VecDeque<Notification>,
    reports: usize,
    lines: usize,
    dropped: u64,
    /// The value reported last.
    done: f64,
    /// True if any report had a fraction.
    has_fractions: bool,
    closed: bool,
}

impl Outbox {
    /// Creates an outbox for what a client requested. Returns `None` if it requested nothing, so that nothing is spent
    /// on it.
    pub(crate) fn for_client(wants_progress: bool, level: Option<Level>) -> Option<Arc<Self>> {
        let outbox = Self { wants_progress, level, queued: Mutex::default(), arrived: Notify::new() };
        (wants_progress || level.is_some()).then(|| Arc::new(outbox))
    }

    /// Marks the end of the call, or of one of its requests.
    pub(crate) fn close(&self) {
        self.queued().closed = true;
        self.arrived.notify_one();
    }

    /// Takes notifications again, for the next request of the same call.
    pub(crate) fn reopen(&self) {
        self.queued().closed = false;
    }

    /// Returns the next notification, or `None` after [`Outbox::close`] once nothing is left.
    pub(crate) async fn next(&self, pace: &mut Pace) -> Option<Notification> {
        loop {
            match self.take() {
                Next::Notification(notification) => {
                    if !self.queued().closed {
                        pace.wait().await;
                    }
                    pace.record_sent();
                    return Some(notification);
                }
                Next::Wait => self.arrived.notified().await,
                Next::End => return None,
            }
        }
    }

    fn take(&self) -> Next {
        let mut queued = self.queued();
        if queued.dropped > 0 {
            return Next::Notification(Notification::Dropped(std::mem::take(&mut queued.dropped)));
        }
        match queued.queue.pop_front() {
            Some(notification) => {
                match notification {
                    Notification::Progress { .. } => queued.reports -= 1,
                    Notification::Log(..) => queued.lines -= 1,
                    Notification::Dropped(_) => {}
                }
                Next::Notification(notification)
            }
            None if queued.closed => Next::End,
            None => Next::Wait,
        }
    }

    fn queued(&self) -> MutexGuard<'_, QueueState> {
        // Nothing between lock and unlock can panic half-way.
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rate of notifications of one call.
pub(crate) struct Pace {
    sent: u32,
    last: Instant,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { sent: 0, last: Instant::now() }
    }

    async fn wait(&self) {
        if self.sent >= MAX_BURST_MESSAGES {
            tokio::time::sleep_until(self.last + MIN_INTERVAL).await;
        }
    }

    fn record_sent(&mut self) {
        self.sent = self.sent.saturating_add(1);
        self.last = Instant::now();
    }
}

enum Next {
    Notification(Notification),
    Wait,
    End,
}

impl QueueState {
    fn push_progress(&mut self, progress: Progress) {
        let Progress { fraction, message, partial: _ } = progress;
        let fraction = fraction.filter(|fraction| fraction.is_finite());
        self.has_fractions |= fraction.is_some();
        // `progress` must increase with each notification (MCP specification, "Progress").
        self.done = match fraction {
            Some(fraction) if fraction > self.done || self.has_no_reports() => fraction,
            Some(_) if message.is_none() => return,
            _ if self.has_fractions => self.done.next_up(),
            _ => self.done + 1.0,
        };
        let report = Notification::Progress { done: self.done, total: self.has_fractions.then_some(1.0), message };
        if self.reports >= MAX_QUEUED_REPORTS
            && let Some(newest) =
                self.queue.iter_mut().rev().find(|notification| matches!(notification, Notification::Progress { .. }))
        {
            *newest = report;
        } else {
            self.reports += 1;
            self.queue.push_back(report);
        }
    }

    /// Returns true before the first report: zero is a valid first value, and later values have to grow.
    fn has_no_reports(&self) -> bool {
        self.done == 0.0 && self.reports == 0
    }

    fn push_log(&mut self, level: Level, message: &str) {
        if self.lines >= MAX_QUEUED_LINES
            && let Some(oldest) =
                self.queue.iter().position(|notification| matches!(notification, Notification::Log(..)))
        {
            self.queue.remove(oldest);
            self.dropped += 1;
            self.lines -= 1;
        }
        self.lines += 1;
        self.queue.push_back(Notification::Log(level, message.into()));
    }
}

impl Observer for Outbox {
    fn log(&self, level: Level, message: &str) {
        if self.level.is_some_and(|min| level >= min) {
            self.queued().push_log(level, message);
            self.arrived.notify_one();
        }
    }

    fn progress(&self, progress: Progress) {
        if self.wants_progress {
            self.queued().push_progress(progress);
            self.arrived.notify_one();
        }
    }
}

/// The recipient of the notifications of one call.
pub(crate) struct Notifier<'a> {
    pub(crate) peer: &'a Peer<RoleServer>,
    pub(crate) token: Option<ProgressToken>,
    /// The name under which the client called the tool.
    pub(crate) tool: &'a str,
}

impl Notifier<'_> {
    /// Sends everything that is queued, until the call has ended and nothing is left.
    pub(crate) async fn send_all(&self, outbox: &Outbox) {
        let mut pace = Pace::new();
        while let Some(notification) = outbox.next(&mut pace).await {
            self.send(notification).await;
        }
    }

    /// Sends one notification. Errors are ignored: the client is gone, and its calls end by themselves.
    async fn send(&self, notification: Notification) {
        match notification {
            Notification::Progress { done, total, message } => {
                let Some(token) = self.token.clone() else { return };
                let mut report = ProgressNotificationParam::new(token, done);
                report.total = total;
                report.message = message.map(String::from);
                let _disconnected = self.peer.notify_progress(report).await;
            }
            Notification::Log(level, line) => self.log(level, line).await,
            Notification::Dropped(lines) => {
                self.log(Level::Warn, format!("{lines} log lines were dropped").into()).await
            }
        }
    }

    async fn log(&self, level: Level, line: PrintableText) {
        let line = LoggingMessageNotificationParam::new(log_level::to_logging_level(level), Value::String(line.into()))
            .with_logger(self.tool);
        let _disconnected = self.peer.notify_logging_message(line).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn drain(outbox: &Outbox) -> Vec<String> {
        outbox.close();
        let mut drained = Vec::new();
        let mut pace = Pace::new();
        while let Some(notification) = outbox.next(&mut pace).await {
            drained.push(match notification {
                Notification::Progress { done, total, message } => {
                    format!("{done}/{} {}", total.unwrap_or(0.0), message.unwrap_or_default())
                }
                Notification::Log(level, line) => format!("{} {line}", level.as_str()),
                Notification::Dropped(lines) => format!("dropped {lines}"),
            });
        }
        drained
    }

    fn report(fraction: Option<f64>, message: Option<&str>) -> Progress {
        Progress { fraction, message: message.map(PrintableText::from), partial: Vec::new() }
    }

    #[tokio::test]
    async fn progress_only_increases() {
        let outbox = Outbox::for_client(true, None).unwrap();
        for (fraction, message) in
            [(Some(0.0), None), (Some(0.5), None), (Some(0.5), None), (Some(0.2), None), (Some(1.0), Some("end"))]
        {
            outbox.progress(report(fraction, message));
        }
        outbox.log(Level::Error, "not wanted");
        assert_eq!(drain(&outbox).await, ["0/1 ", "0.5/1 ", "1/1 end"]);

        let outbox = Outbox::for_client(true, None).unwrap();
        for message in ["a", "b"] {
            outbox.progress(report(None, Some(message)));
        }
        assert_eq!(drain(&outbox).await, ["1/0 a", "2/0 b"]);
        assert!(Outbox::for_client(false, None).is_none());
    }

    #[tokio::test]
    async fn bounds_the_queue_and_counts_dropped_lines() {
        let outbox = Outbox::for_client(true, Some(Level::Info)).unwrap();
        for at in 0..100 {
            outbox.progress(report(Some(f64::from(at) / 100.0), None));
        }
        assert_eq!(
            drain(&outbox).await,
            ["0/1 ", "0.01/1 ", "0.02/1 ", "0.03/1 ", "0.04/1 ", "0.05/1 ", "0.06/1 ", "0.99/1 "]
        );

        let outbox = Outbox::for_client(true, Some(Level::Info)).unwrap();
        outbox.log(Level::Debug, "too small");
        for at in 0..100 {
            outbox.log(Level::Warn, &at.to_string());
        }
        let drained = drain(&outbox).await;
        assert_eq!((drained.len(), drained[0].as_str(), drained[1].as_str()), (65, "dropped 36", "warn 36"));
    }
}
