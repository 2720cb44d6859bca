//! What a running call says, on its way to the client: never blocking the guest, never more than a client can take.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fumehood_core::event::{Level, Progress};
use fumehood_core::untrusted::PrintableText;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::toolbox::Watcher;

/// Reports of progress that wait; of more, the newest counts.
const REPORTS: usize = 8;
/// Log lines that wait; of more, the oldest are dropped, with a count.
const LINES: usize = 64;
/// Between two messages of one call, if the first few were not enough for it.
const PACE: Duration = Duration::from_millis(2);
/// Messages of one call before the pace counts.
const BURST: u32 = 32;

/// One thing to tell.
#[derive(Debug, PartialEq)]
pub(crate) enum News {
    /// `done` grows with every report. `total` is 1 where the tool speaks in fractions.
    Progress {
        /// How far it is.
        done: f64,
        /// Of how much.
        total: Option<f64>,
        /// What is being done.
        message: Option<PrintableText>,
    },
    /// A log line.
    Log(Level, PrintableText),
    /// So many log lines were dropped at this point.
    Dropped(u64),
}

/// The news of one call.
pub(crate) struct Outbox {
    wants_progress: bool,
    /// The least level of log lines that the client wants; `None` for none.
    level: Option<Level>,
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Default)]
struct Waiting {
    news: VecDeque<News>,
    reports: usize,
    lines: usize,
    dropped: u64,
    /// What was reported last.
    done: f64,
    /// Whether any report had a fraction.
    fractions: bool,
    closed: bool,
}

impl Outbox {
    /// For a client that wants this. `None` if it wants nothing: then nothing is spent on it.
    pub(crate) fn wanted(wants_progress: bool, level: Option<Level>) -> Option<Arc<Self>> {
        let outbox = Self { wants_progress, level, waiting: Mutex::default(), arrived: Notify::new() };
        (wants_progress || level.is_some()).then(|| Arc::new(outbox))
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) {
        self.waiting().closed = true;
        self.arrived.notify_one();
    }

    /// What is to be told next; `None` after [`Outbox::close`], when nothing is left.
    pub(crate) async fn next(&self, pace: &mut Pace) -> Option<News> {
        loop {
            match self.take() {
                Next::News(news) => {
                    if !self.waiting().closed {
                        pace.wait().await;
                    }
                    pace.told();
                    return Some(news);
                }
                Next::Wait => self.arrived.notified().await,
                Next::End => return None,
            }
        }
    }

    fn take(&self) -> Next {
        let mut waiting = self.waiting();
        if waiting.dropped > 0 {
            return Next::News(News::Dropped(std::mem::take(&mut waiting.dropped)));
        }
        match waiting.news.pop_front() {
            Some(news) => {
                match news {
                    News::Progress { .. } => waiting.reports -= 1,
                    News::Log(..) => waiting.lines -= 1,
                    News::Dropped(_) => {}
                }
                Next::News(news)
            }
            None if waiting.closed => Next::End,
            None => Next::Wait,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing between lock and unlock can panic half-way.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much a client was told of one call, and when.
pub(crate) struct Pace {
    told: u32,
    last: Instant,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { told: 0, last: Instant::now() }
    }

    async fn wait(&self) {
        if self.told >= BURST {
            tokio::time::sleep_until(self.last + PACE).await;
        }
    }

    fn told(&mut self) {
        self.told = self.told.saturating_add(1);
        self.last = Instant::now();
    }
}

enum Next {
    News(News),
    Wait,
    End,
}

impl Waiting {
    fn report(&mut self, progress: Progress) {
        let Progress { fraction, message, partial: _ } = progress;
        let fraction = fraction.filter(|fraction| fraction.is_finite());
        self.fractions |= fraction.is_some();
        // The protocol wants every report to be larger than the one before.
        self.done = match fraction {
            Some(fraction) if fraction > self.done || self.reports_nothing_yet() => fraction,
            Some(_) if message.is_none() => return,
            _ if self.fractions => self.done.next_up(),
            _ => self.done + 1.0,
        };
        let report = News::Progress { done: self.done, total: self.fractions.then_some(1.0), message };
        if self.reports >= REPORTS
            && let Some(newest) = self.news.iter_mut().rev().find(|news| matches!(news, News::Progress { .. }))
        {
            *newest = report;
        } else {
            self.reports += 1;
            self.news.push_back(report);
        }
    }

    /// Zero is a report too, if it is the first.
    fn reports_nothing_yet(&self) -> bool {
        self.done == 0.0 && self.reports == 0
    }

    fn line(&mut self, level: Level, message: &str) {
        if self.lines >= LINES
            && let Some(oldest) = self.news.iter().position(|news| matches!(news, News::Log(..)))
        {
            self.news.remove(oldest);
            self.dropped += 1;
            self.lines -= 1;
        }
        self.lines += 1;
        self.news.push_back(News::Log(level, message.into()));
    }
}

impl Watcher for Outbox {
    fn log(&self, level: Level, message: &str) {
        if self.level.is_some_and(|least| level >= least) {
            self.waiting().line(level, message);
            self.arrived.notify_one();
        }
    }

    fn progress(&self, progress: Progress) {
        if self.wants_progress {
            self.waiting().report(progress);
            self.arrived.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn told(outbox: &Outbox) -> Vec<String> {
        outbox.close();
        let (mut told, mut pace) = (Vec::new(), Pace::new());
        while let Some(news) = outbox.next(&mut pace).await {
            told.push(match news {
                News::Progress { done, total, message } => {
                    format!("{done}/{} {}", total.unwrap_or(0.0), message.unwrap_or_default())
                }
                News::Log(level, line) => format!("{} {line}", level.as_str()),
                News::Dropped(lines) => format!("dropped {lines}"),
            });
        }
        told
    }

    fn report(fraction: Option<f64>, message: Option<&str>) -> Progress {
        Progress { fraction, message: message.map(PrintableText::from), partial: Vec::new() }
    }

    #[tokio::test]
    async fn reports_only_grow() {
        let outbox = Outbox::wanted(true, None).unwrap();
        for (fraction, message) in
            [(Some(0.0), None), (Some(0.5), None), (Some(0.5), None), (Some(0.2), None), (Some(1.0), Some("end"))]
        {
            outbox.progress(report(fraction, message));
        }
        outbox.log(Level::Error, "not wanted");
        assert_eq!(told(&outbox).await, ["0/1 ", "0.5/1 ", "1/1 end"]);

        let outbox = Outbox::wanted(true, None).unwrap();
        for message in ["a", "b"] {
            outbox.progress(report(None, Some(message)));
        }
        assert_eq!(told(&outbox).await, ["1/0 a", "2/0 b"]);
        assert!(Outbox::wanted(false, None).is_none());
    }

    #[tokio::test]
    async fn a_flood_is_cut_and_counted() {
        let outbox = Outbox::wanted(true, Some(Level::Info)).unwrap();
        for at in 0..100 {
            outbox.progress(report(Some(f64::from(at) / 100.0), None));
        }
        assert_eq!(
            told(&outbox).await,
            ["0/1 ", "0.01/1 ", "0.02/1 ", "0.03/1 ", "0.04/1 ", "0.05/1 ", "0.06/1 ", "0.99/1 "]
        );

        let outbox = Outbox::wanted(true, Some(Level::Info)).unwrap();
        outbox.log(Level::Debug, "too small");
        for at in 0..100 {
            outbox.log(Level::Warn, &at.to_string());
        }
        let told = told(&outbox).await;
        assert_eq!((told.len(), told[0].as_str(), told[1].as_str()), (65, "dropped 36", "warn 36"));
    }
}
