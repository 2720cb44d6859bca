//! Accounting of the requests of a call: what they use of its allowances, and a report of each of them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use fumehood_core::event::RequestReport;
use fumehood_core::limits::display_bytes;
use fumehood_core::permission::http::HttpLimits;
use fumehood_core::redact::Redactor;

use crate::capability::refusals::Refusals;
use crate::invocation::{Invocation, Observer};

/// Maximum number of refused requests of one call that are reported. More would add nothing new.
const MAX_REPORTED_REFUSALS: u32 = 16;

/// Maximum number of reports in the result of one call.
const MAX_REPORTS: usize = 64;

/// The reports of the requests of one call, for its result. Clones share the list.
#[derive(Clone, Default)]
pub(crate) struct Reports(Arc<Mutex<Vec<RequestReport>>>);

impl Reports {
    fn keep(&self, report: &RequestReport) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX_REPORTS {
            kept.push(report.clone());
        }
    }

    /// Takes all reports, once the call is over.
    pub(crate) fn taken(&self) -> Vec<RequestReport> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The receivers of the reports of a call's requests, and the redactor of what they receive.
#[derive(Clone)]
pub(crate) struct RequestObserver {
    pub(crate) call: Arc<Invocation>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) redactor: Option<Arc<Redactor>>,
    pub(crate) reports: Reports,
}

impl RequestObserver {
    fn tell(&self, mut report: RequestReport) {
        if let Some(redactor) = &self.redactor {
            redactor.in_text(&mut report.method);
            redactor.in_text(&mut report.host);
            report.reason.iter_mut().for_each(|reason| redactor.in_text(reason));
        }
        self.reports.keep(&report);
        if let Some(observer) = &self.observer {
            observer.request(&self.call, report);
        }
    }
}

/// The allowances of all requests of one call together. Clones share them.
#[derive(Clone)]
pub(super) struct Budget(Arc<Spent>);

struct Spent {
    limits: HttpLimits,
    requests: AtomicU32,
    refused: AtomicU32,
    bytes_out: AtomicU64,
    bytes_in: AtomicU64,
    refusals: Refusals,
}

/// The error for an allowance of the call that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UsedUp;

/// The direction in which bytes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Out,
    In,
}

impl Budget {
    pub(super) fn new(limits: HttpLimits, refusals: &Refusals) -> Self {
        let [requests, refused] = [AtomicU32::new(0), AtomicU32::new(0)];
        let [bytes_out, bytes_in] = [AtomicU64::new(0), AtomicU64::new(0)];
        Self(Arc::new(Spent { limits, requests, refused, bytes_out, bytes_in, refusals: refusals.clone() }))
    }

    /// Counts one more request.
    fn request(&self) -> Result<(), UsedUp> {
        let most = self.0.limits.requests;
        if self.0.requests.fetch_add(1, Relaxed) < most {
            return Ok(());
        }
        // Reset, so that the counter never wraps however often a guest tries.
        self.0.requests.store(most, Relaxed);
        self.0.refusals.used_up(format!("http: the tool made all of its {most} requests"));
        Err(UsedUp)
    }

    fn bytes(&self, direction: Direction, bytes: u64) -> Result<(), UsedUp> {
        let limits = &self.0.limits;
        let (counter, most, did) = match direction {
            Direction::Out => (&self.0.bytes_out, limits.bytes_out, "sent"),
            Direction::In => (&self.0.bytes_in, limits.bytes_in, "received"),
        };
        if counter.fetch_add(bytes, Relaxed).saturating_add(bytes) <= most {
            return Ok(());
        }
        self.0.refusals.used_up(format!("http: the tool {did} all of its {}", display_bytes(most)));
        Err(UsedUp)
    }

    /// Counts one more refused request, and returns whether to report it.
    fn tells_refusal(&self) -> bool {
        let told = self.0.refused.load(Relaxed);
        self.0.refused.store(told.saturating_add(1), Relaxed);
        told < MAX_REPORTED_REFUSALS
    }
}

/// The account of one request. Clones share it.
#[derive(Clone)]
pub(super) struct Account(Arc<Entry>);

struct Entry {
    method: String,
    host: String,
    budget: Budget,
    watcher: RequestObserver,
    bytes_out: AtomicU64,
    bytes_in: AtomicU64,
    ended: Mutex<Ended>,
    told: AtomicBool,
}

#[derive(Default)]
struct Ended {
    status: Option<u16>,
    reason: Option<String>,
}

impl Account {
    /// Opens an account and counts the request.
    pub(super) fn open(
        budget: &Budget,
        watcher: &RequestObserver,
        method: String,
        host: String,
    ) -> Result<Self, UsedUp> {
        let account = Self::new(budget, watcher, method, host);
        match budget.request() {
            Ok(()) => Ok(account),
            Err(used_up) => {
                account.refused("all requests of the call were made");
                Err(used_up)
            }
        }
    }

    pub(super) fn new(budget: &Budget, watcher: &RequestObserver, method: String, host: String) -> Self {
        let [bytes_out, bytes_in] = [AtomicU64::new(0), AtomicU64::new(0)];
        let (budget, watcher) = (budget.clone(), watcher.clone());
        let (ended, told) = (Mutex::default(), AtomicBool::new(false));
        Self(Arc::new(Entry { method, host, budget, watcher, bytes_out, bytes_in, ended, told }))
    }

    /// Reports a request that was never sent, unless enough of those were reported.
    pub(super) fn refused(&self, reason: &str) {
        self.failed(reason);
        match self.0.budget.tells_refusal() {
            true => self.tell(),
            false => self.0.told.store(true, Relaxed),
        }
    }

    /// Counts bytes of this request. After an error the caller must not pass them on.
    pub(super) fn count(&self, direction: Direction, bytes: usize) -> Result<(), UsedUp> {
        let bytes = bytes as u64;
        self.0.budget.bytes(direction, bytes)?;
        match direction {
            Direction::Out => self.0.bytes_out.fetch_add(bytes, Relaxed),
            Direction::In => self.0.bytes_in.fetch_add(bytes, Relaxed),
        };
        Ok(())
    }

    /// Records the status of the response.
    pub(super) fn answered(&self, status: u16) {
        self.ended(|ended| ended.status = Some(status));
    }

    /// Records a failure. Only the first reason is kept.
    pub(super) fn failed(&self, reason: &str) {
        self.ended(|ended| {
            ended.reason.get_or_insert_with(|| reason.to_owned());
        });
    }

    /// Returns whether a failure was recorded, whose reason is better than those of errors that follow from it.
    pub(super) fn has_failed(&self) -> bool {
        let mut failed = false;
        self.ended(|ended| failed = ended.reason.is_some());
        failed
    }

    fn ended(&self, change: impl FnOnce(&mut Ended)) {
        change(&mut self.0.ended.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Reports the outcome to the observer, once.
    pub(super) fn tell(&self) {
        let entry = &self.0;
        if entry.told.swap(true, Relaxed) {
            return;
        }
        let mut report = RequestReport {
            method: entry.method.clone(),
            host: entry.host.clone(),
            status: None,
            reason: None,
            bytes_out: entry.bytes_out.load(Relaxed),
            bytes_in: entry.bytes_in.load(Relaxed),
        };
        self.ended(|ended| (report.status, report.reason) = (ended.status, ended.reason.clone()));
        if report.status.is_none() && report.reason.is_none() {
            report.reason = Some("the call ended before there was an answer".to_owned());
        }
        entry.watcher.tell(report);
    }
}

/// A running request, which is over and reported when this is dropped.
pub(super) struct Open(pub(super) Account);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.tell();
    }
}
