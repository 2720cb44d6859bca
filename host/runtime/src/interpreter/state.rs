//! The data of a running program's store, and the functions that its interpreter imports.

use std::sync::Arc;

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::Level;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::{CancellationToken, FuelAccount};
use fumehood_core::program::{ConsoleLine, FinishedCall};
use fumehood_core::text::untrusted::Untrusted;

use super::bindings::fumehood::code::{calls, console};
use super::deadline::ProgramDeadline;
use super::mailbox::{Answer, Mailbox, Request, Stop};
use crate::engine::memory::MemoryLimiter;

/// Bytes that each printed message counts in addition to its text.
const LINE_BYTES: usize = 16;

/// The data of a program's [`Store`](wasmtime::Store).
pub(crate) struct ProgramState {
    pub(crate) memory: MemoryLimiter,
    /// True while the interpreter's counter of fuel is up to date: while the program waits for a call.
    pub(crate) is_fuel_saved: bool,
    pub(crate) console: Vec<ConsoleLine>,
    /// Bytes that were printed beyond the limit.
    pub(crate) dropped: u64,
    /// True from the end of a call until the guest was first interrupted.
    has_resumed: bool,
    console_bytes: usize,
    mailbox: Mailbox,
    deadline: ProgramDeadline,
    cancelled: Option<CancellationToken>,
    account: Option<Arc<dyn FuelAccount>>,
    /// The fuel that was taken from the account.
    charged: u64,
}

impl ProgramState {
    pub(crate) fn new(
        limits: &Limits,
        mailbox: Mailbox,
        deadline: ProgramDeadline,
        cancelled: Option<CancellationToken>,
        account: Option<Arc<dyn FuelAccount>>,
    ) -> Self {
        Self {
            memory: MemoryLimiter::new(limits.memory),
            is_fuel_saved: true,
            console: Vec::new(),
            dropped: 0,
            has_resumed: false,
            console_bytes: limits.log,
            mailbox,
            deadline,
            cancelled,
            account,
            charged: 0,
        }
    }

    /// Returns the reason to stop the program now, if there is one.
    pub(crate) fn stop(&self) -> Option<Stop> {
        if self.cancelled.as_ref().is_some_and(CancellationToken::is_cancelled) {
            return Some(Stop::Cancelled);
        }
        self.deadline.has_passed().then_some(Stop::Deadline)
    }

    /// Takes the fuel that the guest has used so far from its account. Returns whether there is more.
    pub(crate) fn charge(&mut self, used: u64) -> bool {
        let Some(account) = &self.account else { return true };
        let since = used.saturating_sub(self.charged);
        self.charged = used.max(self.charged);
        account.spend(since)
    }

    /// Returns whether the guest was waiting for a call since this was last asked.
    pub(crate) fn take_resumed(&mut self) -> bool {
        std::mem::take(&mut self.has_resumed)
    }

    async fn ask(&mut self, request: Request) -> Answer {
        self.is_fuel_saved = true;
        let answer = self.mailbox.ask(request).await;
        self.has_resumed = true;
        answer
    }
}

impl calls::Host for ProgramState {
    async fn start(&mut self, name: String, arguments: String) -> wasmtime::Result<u32> {
        match self.ask(Request::Start { name, arguments }).await {
            Answer::Started(id) => Ok(id),
            Answer::Stop(stop) => Err(stop.into()),
            Answer::Finished(_) => Err(Stop::Protocol.into()),
        }
    }

    async fn wait(&mut self) -> wasmtime::Result<Vec<(u32, calls::CallResult)>> {
        match self.ask(Request::Wait).await {
            Answer::Finished(finished) => Ok(finished.into_iter().map(to_guest).collect()),
            Answer::Stop(stop) => Err(stop.into()),
            Answer::Started(_) => Err(Stop::Protocol.into()),
        }
    }
}

impl console::Host for ProgramState {
    fn log(&mut self, level: console::Level, message: String) {
        let bytes = message.len().saturating_add(LINE_BYTES);
        let Some(remaining) = self.console_bytes.checked_sub(bytes) else {
            self.dropped = self.dropped.saturating_add(message.len() as u64);
            return;
        };
        self.console_bytes = remaining;
        let level = match level {
            console::Level::Debug => Level::Debug,
            console::Level::Info => Level::Info,
            console::Level::Warn => Level::Warn,
            console::Level::Error => Level::Error,
        };
        self.console.push(ConsoleLine { level, text: Untrusted::new(message) });
    }
}

fn to_guest(FinishedCall { id, result }: FinishedCall) -> (u32, calls::CallResult) {
    let result = result.map_err(|error| calls::CallError {
        retryable: error.kind == ErrorKind::Unavailable || error.retry_after.is_some(),
        kind: error.kind.as_str().to_owned(),
        message: match error.advice() {
            Some(advice) => format!("{}; {advice}", error.message),
            None => error.message.to_string(),
        },
    });
    (id, result)
}
