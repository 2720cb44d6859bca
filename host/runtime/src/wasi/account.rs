//! Accounting of the requests and connections of a call: what they use of its allowances, and a report of each of them.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use fumehood_core::call::Observer;
use fumehood_core::call::event::RequestReport;
use fumehood_core::call::limits::display_bytes;
use fumehood_core::policy::permission::http::HttpLimits;
use fumehood_core::policy::permission::tcp::TcpLimits;
use fumehood_core::policy::redact::Redactor;

use super::refusals::Refusals;

/// Maximum number of refused requests of one call that are reported. More would add nothing new.
const MAX_REPORTED_REFUSALS: u32 = 16;

/// Maximum number of reports in the result of one call.
const MAX_REPORTS: usize = 64;

/// The reports of the requests of one call, for its result. Clones share the list.
#[derive(Clone, Default)]
pub(in crate::wasi) struct Reports(Arc<Mutex<Vec<RequestReport>>>);

impl Reports {
    fn push(&self, report: &RequestReport) {
        let mut reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if reports.len() < MAX_REPORTS {
            reports.push(report.clone());
        }
    }

    /// Takes all reports, once the call is over.
    fn take(&self) -> Vec<RequestReport> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The receivers of the reports of a call's requests, and the redactor of what they receive.
#[derive(Clone)]
pub(crate) struct RequestObserver {
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) redactor: Option<Arc<Redactor>>,
    pub(crate) ledger: RequestLedger,
}

impl RequestObserver {
    /// Redacts secrets in a text.
    pub(in crate::wasi) fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redactor.as_ref().map_or(Cow::Borrowed(text), |redactor| redactor.redact(text))
    }

    fn report(&self, mut report: RequestReport) {
        if let Some(redactor) = &self.redactor {
            redactor.redact_text(&mut report.method);
            redactor.redact_text(&mut report.host);
            report.reason.iter_mut().for_each(|reason| redactor.redact_text(reason));
        }
        self.ledger.reports.push(&report);
        if let Some(observer) = &self.observer {
            observer.request(report);
        }
    }
}

/// The allowances of all requests, or of all connections, of one call together. Clones share them.
#[derive(Clone)]
pub(in crate::wasi) struct Budget(Arc<BudgetState>);

/// The limits of a budget.
pub(in crate::wasi) struct Allowances {
    /// The power that they belong to.
    power: &'static str,
    /// What `requests` counts, as it ends a sentence about a tool.
    counted: &'static str,
    requests: u32,
    bytes_out: u64,
    bytes_in: u64,
}

impl From<HttpLimits> for Allowances {
    fn from(limits: HttpLimits) -> Self {
        let HttpLimits { requests, bytes_out, bytes_in, .. } = limits;
        Self { power: "http", counted: "requests", requests, bytes_out, bytes_in }
    }
}

impl From<TcpLimits> for Allowances {
    fn from(limits: TcpLimits) -> Self {
        let TcpLimits { connections, bytes_out, bytes_in, .. } = limits;
        Self { power: "tcp", counted: "connections", requests: connections, bytes_out, bytes_in }
    }
}

struct BudgetState {
    limits: Allowances,
    requests: AtomicU32,
    refused: AtomicU32,
    bytes_out: AtomicU64,
    bytes_in: AtomicU64,
    /// Held while a connection moves bytes.
    turn: Mutex<()>,
    refusals: Refusals,
}

/// The error for an allowance of the call that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::wasi) struct AllowanceExceeded;

/// The direction in which bytes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::wasi) enum Direction {
    Out,
    In,
}

impl Budget {
    pub(in crate::wasi) fn new(limits: impl Into<Allowances>, refusals: &Refusals) -> Self {
        let limits = limits.into();
        let [requests, refused] = [AtomicU32::new(0), AtomicU32::new(0)];
        let [bytes_out, bytes_in] = [AtomicU64::new(0), AtomicU64::new(0)];
        let refusals = refusals.clone();
        Self(Arc::new(BudgetState { limits, requests, refused, bytes_out, bytes_in, turn: Mutex::default(), refusals }))
    }

    /// Counts one more request.
    fn count_request(&self) -> Result<(), AllowanceExceeded> {
        let Allowances { power, counted, requests: limit, .. } = self.0.limits;
        if self.0.requests.fetch_add(1, Relaxed) < limit {
            return Ok(());
        }
        // Reset, so that the counter never wraps however often a guest tries.
        self.0.requests.store(limit, Relaxed);
        self.0.refusals.add_exhausted(format!("{power}: the tool made all of its {limit} {counted}"));
        Err(AllowanceExceeded)
    }

    fn count_bytes(&self, direction: Direction, bytes: u64) -> Result<(), AllowanceExceeded> {
        if self.counter(direction).fetch_add(bytes, Relaxed).saturating_add(bytes) <= self.limit(direction) {
            return Ok(());
        }
        self.record_exhausted(direction);
        Err(AllowanceExceeded)
    }

    fn counter(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::Out => &self.0.bytes_out,
            Direction::In => &self.0.bytes_in,
        }
    }

    fn limit(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Out => self.0.limits.bytes_out,
            Direction::In => self.0.limits.bytes_in,
        }
    }

    fn record_exhausted(&self, direction: Direction) {
        let power = self.0.limits.power;
        let limit = display_bytes(self.limit(direction));
        let did = match direction {
            Direction::Out => "sent",
            Direction::In => "received",
        };
        self.0.refusals.add_exhausted(format!("{power}: the tool {did} all of its {limit}"));
    }

    /// Counts one more refused request, and returns whether to report it.
    fn count_refusal(&self) -> bool {
        let refused = self.0.refused.load(Relaxed);
        self.0.refused.store(refused.saturating_add(1), Relaxed);
        refused < MAX_REPORTED_REFUSALS
    }
}

/// The account of one request. Clones share it.
#[derive(Clone)]
pub(in crate::wasi) struct Account(Arc<Entry>);

struct Entry {
    method: String,
    host: String,
    budget: Budget,
    observer: RequestObserver,
    bytes_out: AtomicU64,
    bytes_in: AtomicU64,
    outcome: Mutex<Outcome>,
    reported: AtomicBool,
}

#[derive(Default)]
struct Outcome {
    status: Option<u16>,
    is_connected: bool,
    reason: Option<String>,
}

impl Account {
    /// Opens an account and counts the request.
    pub(in crate::wasi) fn open(
        budget: &Budget,
        observer: &RequestObserver,
        method: String,
        host: String,
    ) -> Result<Self, AllowanceExceeded> {
        let account = Self::new(budget, observer, method, host);
        match budget.count_request() {
            Ok(()) => Ok(account),
            Err(error) => {
                account.record_refusal(&format!("all {} of the call were made", budget.0.limits.counted));
                Err(error)
            }
        }
    }

    pub(in crate::wasi) fn new(budget: &Budget, observer: &RequestObserver, method: String, host: String) -> Self {
        let [bytes_out, bytes_in] = [AtomicU64::new(0), AtomicU64::new(0)];
        let budget = budget.clone();
        let observer = observer.clone();
        let outcome = Mutex::default();
        let reported = AtomicBool::new(false);
        Self(Arc::new(Entry { method, host, budget, observer, bytes_out, bytes_in, outcome, reported }))
    }

    /// Reports a request that was never sent, unless enough of those were reported.
    pub(in crate::wasi) fn record_refusal(&self, reason: &str) {
        self.record_failure(reason);
        if self.0.budget.count_refusal() { self.report() } else { self.0.reported.store(true, Relaxed) }
    }

    /// Counts bytes of this request. After an error the caller must not pass them on.
    pub(in crate::wasi) fn count(&self, direction: Direction, bytes: usize) -> Result<(), AllowanceExceeded> {
        let bytes = bytes as u64;
        self.0.budget.count_bytes(direction, bytes)?;
        match direction {
            Direction::Out => self.0.bytes_out.fetch_add(bytes, Relaxed),
            Direction::In => self.0.bytes_in.fetch_add(bytes, Relaxed),
        };
        Ok(())
    }

    /// Moves at most `wanted` bytes, as far as the allowance permits. `transfer` gets that number, and returns its result and the
    /// number of bytes that it moved. Connections of one call take turns, so that each sees all that is left.
    pub(in crate::wasi) fn transfer<T>(
        &self,
        direction: Direction,
        wanted: usize,
        transfer: impl FnOnce(usize) -> (T, usize),
    ) -> T {
        let budget = &self.0.budget;
        let _turn = budget.0.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let left = budget.limit(direction).saturating_sub(budget.counter(direction).load(Relaxed));
        let (result, moved) = transfer(usize::try_from(left).map_or(wanted, |left| left.min(wanted)));
        budget.counter(direction).fetch_add(moved as u64, Relaxed);
        let counter = match direction {
            Direction::Out => &self.0.bytes_out,
            Direction::In => &self.0.bytes_in,
        };
        counter.fetch_add(moved as u64, Relaxed);
        result
    }

    /// Records that an allowance is used up, as the failure of this connection.
    pub(in crate::wasi) fn record_exhausted(&self, direction: Direction) {
        self.0.budget.record_exhausted(direction);
        self.record_failure(match direction {
            Direction::Out => "the call sent more than it may",
            Direction::In => "the call received more than it may",
        });
    }

    /// Records that a connection was established. It needs no status.
    pub(in crate::wasi) fn record_connected(&self) {
        self.update_outcome(|outcome| outcome.is_connected = true);
    }

    /// Records the status of the response.
    pub(in crate::wasi) fn record_status(&self, status: u16) {
        self.update_outcome(|outcome| outcome.status = Some(status));
    }

    /// Records a failure. Only the first reason is kept.
    pub(in crate::wasi) fn record_failure(&self, reason: &str) {
        self.update_outcome(|outcome| {
            outcome.reason.get_or_insert_with(|| reason.to_owned());
        });
    }

    /// Returns whether a failure was recorded, whose reason is better than those of errors that follow from it.
    pub(in crate::wasi) fn has_failed(&self) -> bool {
        let mut failed = false;
        self.update_outcome(|outcome| failed = outcome.reason.is_some());
        failed
    }

    fn update_outcome(&self, change: impl FnOnce(&mut Outcome)) {
        change(&mut self.0.outcome.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Reports the outcome to the observer, once.
    pub(in crate::wasi) fn report(&self) {
        let entry = &self.0;
        if entry.reported.swap(true, Relaxed) {
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
        let mut is_connected = false;
        self.update_outcome(|outcome| {
            report.status = outcome.status;
            report.reason.clone_from(&outcome.reason);
            is_connected = outcome.is_connected;
        });
        if report.status.is_none() && report.reason.is_none() && !is_connected {
            report.reason = Some("the call ended before there was an answer".to_owned());
        }
        entry.observer.report(report);
    }
}

/// The accounts of the requests of one call, until it is over. Clones share them.
#[derive(Clone, Default)]
pub(in crate::wasi) struct Accounts(Arc<Mutex<AccountList>>);

#[derive(Default)]
struct AccountList {
    accounts: Vec<Account>,
    is_closed: bool,
}

impl Accounts {
    /// Adds a request, and returns true unless the call is over.
    pub(in crate::wasi) fn add(&self, account: Account) -> bool {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !list.is_closed {
            list.accounts.push(account);
        }
        !list.is_closed
    }

    /// Reports every request, and accepts no more.
    pub(in crate::wasi) fn close(&self) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.is_closed = true;
        let accounts = std::mem::take(&mut list.accounts);
        // Observers are not called with the lock.
        drop(list);
        accounts.iter().for_each(Account::report);
    }
}

/// The requests and connections of one call and their reports, for its result. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct RequestLedger {
    pub(in crate::wasi) accounts: Accounts,
    pub(in crate::wasi) reports: Reports,
}

impl RequestLedger {
    /// Ends the account of every request, and returns the reports. Later requests are refused.
    pub(crate) fn end(&self) -> Vec<RequestReport> {
        self.accounts.close();
        self.reports.take()
    }
}

/// A running request, which is over and reported when this is dropped.
pub(in crate::wasi) struct ReportOnDrop(pub(in crate::wasi) Account);

impl Drop for ReportOnDrop {
    fn drop(&mut self) {
        self.0.report();
    }
}
