//! Code mode: programs that a model wrote, run by an interpreter that is a component of its own.
//!
//! ```text
//! Interpreter::run ─ a place among the programs ─ fresh store: fuel, limiter, no powers
//!     └ until the guest asks: on this thread during the program's first slice, then on the guest threads
//!     └ the request: answered in the caller's task, by its port, within the deadline
//! ```
//!
//! Programs have places of their own. A call of a program needs one among the calls, and programs that held those could
//! wait for each other.

mod bindings;
mod deadline;
mod execute;
mod load;
mod mailbox;
mod state;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::{CallError, Metadata};
use fumehood_core::digest::Digest;
use fumehood_core::program::{Program, ProgramCalls, ProgramError, ProgramExecution};
use tracing::Instrument as _;

use self::bindings::CodePre;
use self::deadline::ProgramDeadline;
use self::mailbox::{Answer, Mailbox, Request, Stop};
use self::state::ProgramState;
use crate::call::admission::AdmissionError;
use crate::call::place::unless_cancelled;
use crate::call::run::lost_call;
use crate::call::shared::Shared;
use crate::engine::guest_runtime::FirstSlice;
use crate::load::LoadReport;

pub(crate) use self::load::load;

/// An interpreter of JavaScript: QuickJS as a component, for [`crate::Sandbox::load_interpreter`].
pub const JAVASCRIPT: &[u8] = include_bytes!("../../interpreters/javascript.wasm");
/// Memory limit in bytes above which a program never runs on its caller's thread, as for calls.
const FIRST_SLICE_MEMORY: usize = 64 << 20;
/// Time after the start of a program in which it may run on its caller's thread. There is one for each program, whatever it
/// calls, so that others never wait for it longer.
const FIRST_SLICE: Duration = Duration::from_millis(2);
/// Interval at which a program that is paused is checked for the end of the pause.
const PAUSE_POLL: Duration = Duration::from_millis(20);

/// A loaded interpreter, ready to run programs. Cheap to clone.
#[derive(Clone)]
pub struct Interpreter(Arc<InterpreterParts>);

struct InterpreterParts {
    shared: Arc<Shared>,
    pre: CodePre<ProgramState>,
    digest: Digest,
    report: LoadReport,
}

impl std::fmt::Debug for Interpreter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interpreter").field("digest", &self.0.digest).finish_non_exhaustive()
    }
}

/// A place among the running programs, which is given back when the guest is gone.
struct ProgramPlace(Arc<Shared>);

impl Drop for ProgramPlace {
    fn drop(&mut self) {
        self.0.program_admission.leave();
    }
}

impl Interpreter {
    /// Returns the SHA-256 digest of its bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// Returns the duration of loading it, and its use of the code cache.
    #[must_use]
    pub fn report(&self) -> &LoadReport {
        &self.0.report
    }

    /// Runs a program in a fresh instance, and serves its calls with `calls`. Dropping the future stops it.
    pub async fn run(&self, program: Program, calls: &mut dyn ProgramCalls) -> ProgramExecution {
        let shared = &self.0.shared;
        let limits = program.limits;
        let cancelled = program.cancelled.clone();
        if let Err(error) = limits.check(shared.memory_ceiling) {
            return failed_execution(
                CallError::new(ErrorKind::InvalidLimits, error.to_string()),
                Duration::ZERO,
                &limits,
            );
        }
        let since = Instant::now();
        let queued = match unless_cancelled(cancelled.as_ref(), shared.program_admission.enter()).await {
            Some(Ok(queued)) => queued,
            Some(Err(error)) => return failed_execution(refusal(error), since.elapsed(), &limits),
            None => return failed_execution(CallError::cancelled(), since.elapsed(), &limits),
        };
        let place = ProgramPlace(Arc::clone(shared));
        let mailbox = Mailbox::default();
        let deadline = ProgramDeadline::after(Instant::now(), limits.deadline);
        let first_slice = Instant::now() + FIRST_SLICE;
        let execution = execute::execute(self.clone(), program, place, mailbox.clone(), deadline.clone(), queued);
        let mut guest: Guest = Box::pin(execution.in_current_span());
        loop {
            let until_request = UntilRequest { guest: Some(guest), mailbox: mailbox.clone() };
            let is_first = limits.memory <= FIRST_SLICE_MEMORY && Instant::now() < first_slice;
            let slice = if is_first { FirstSlice::Here } else { FirstSlice::Elsewhere };
            guest = match shared.runtime.run(slice, Box::pin(until_request)).await {
                Ok(Progress::Ended(execution)) => return *execution,
                Ok(Progress::Asked(guest)) => guest,
                Err(lost) => return failed_execution(lost_call(lost), queued, &limits),
            };
            let Some(request) = mailbox.take_request() else { continue };
            let serving = self.serve(request, calls, &deadline);
            let answer = unless_cancelled(cancelled.as_ref(), serving).await;
            mailbox.answer(answer.unwrap_or(Answer::Stop(Stop::Cancelled)));
        }
    }

    /// Serves a request within the deadline.
    async fn serve(&self, request: Request, calls: &mut dyn ProgramCalls, deadline: &ProgramDeadline) -> Answer {
        match request {
            Request::Start { name, arguments } => Answer::Started(calls.start(name, arguments)),
            Request::Wait => self.within(deadline, calls.wait(deadline), Answer::Finished).await,
        }
    }

    async fn within<T>(
        &self,
        deadline: &ProgramDeadline,
        future: impl Future<Output = T>,
        answer: impl FnOnce(T) -> Answer,
    ) -> Answer {
        let mut future = std::pin::pin!(future);
        loop {
            let time = deadline.remaining().unwrap_or(PAUSE_POLL);
            match self.0.shared.runtime.within(time, future.as_mut()).await {
                Ok(output) => return answer(output),
                Err(_elapsed) if deadline.has_passed() => return Answer::Stop(Stop::Deadline),
                Err(_elapsed) => {}
            }
        }
    }
}

/// A running program.
type Guest = Pin<Box<dyn Future<Output = ProgramExecution> + Send>>;

/// The state in which a guest stopped.
enum Progress {
    Ended(Box<ProgramExecution>),
    /// It waits for the answer to a request.
    Asked(Guest),
}

/// A future that runs a guest until it makes a request.
struct UntilRequest {
    guest: Option<Guest>,
    mailbox: Mailbox,
}

impl Future for UntilRequest {
    type Output = Progress;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Progress> {
        let Some(mut guest) = self.guest.take() else { return Poll::Pending };
        match guest.as_mut().poll(cx) {
            Poll::Ready(execution) => Poll::Ready(Progress::Ended(Box::new(execution))),
            Poll::Pending if self.mailbox.has_request() => Poll::Ready(Progress::Asked(guest)),
            Poll::Pending => {
                self.guest = Some(guest);
                Poll::Pending
            }
        }
    }
}

fn refusal(error: AdmissionError) -> CallError {
    match error {
        AdmissionError::Full => CallError::new(ErrorKind::Unavailable, "too many programs are waiting")
            .with_hint("run it again in a moment"),
        AdmissionError::Closed => CallError::new(ErrorKind::Unavailable, "the host is shutting down"),
    }
}

/// Creates the end of a program that did not run.
fn failed_execution(error: CallError, queued: Duration, limits: &Limits) -> ProgramExecution {
    let metadata = Metadata::default().queued(queued).deadline(limits.deadline);
    ProgramExecution { outcome: Err(ProgramError::Failed(error)), console: Vec::new(), metadata }
}
