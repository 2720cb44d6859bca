//! The host's end of the socket to one worker process, with the pending calls.
//!
//! A caller that waits for its call first reads the socket itself for a short time, because most calls end within
//! microseconds and waking another thread takes longer. After that a task reads for all waiting callers.

mod tasks;

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read as _};
use std::process::{Child, ChildStderr, ExitStatus};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use fumehood_core::call::{Observer, Usage};
use fumehood_core::policy::permission::files::ProtectedFiles;
use fumehood_platform::process::{self, ProcessEnd};
use tokio::sync::{Notify, oneshot};
use tracing::Span;

use tasks::{Parked, flush, read_for_parked_callers};

use super::frame::{self, Received, Receiver};
use super::message::{Cost, Failure, FromWorker, Part, ToWorker};
use super::services::{CallRequests, Services};
use super::socket::{Socket, Wait, has_output};
use crate::engine::guest_runtime::GuestRuntime;

/// Time for which a caller reads the socket itself before it leaves that to the task.
const SPIN: Duration = Duration::from_micros(60);
/// Maximum number of reads before others have their turn.
const MAX_READS: usize = 64;
/// Minimum time between two reports of the cost of a call; earlier ones are dropped. Workers leave more.
const USAGE_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum size of the worker's stderr that is quoted in the reason for its end, in bytes.
const MAX_STDERR_BYTES: usize = 256;

/// The connection to one worker process.
pub(super) struct Link {
    this: Weak<Self>,
    socket: Socket,
    unsent: Mutex<VecDeque<Vec<u8>>>,
    incoming: Mutex<Receiver>,
    calls: Mutex<HashMap<u64, Pending>>,
    /// The protected files that were last sent to the worker.
    protected: Mutex<Arc<ProtectedFiles>>,
    /// Number of callers that left reading to the task.
    parked: AtomicUsize,
    wakeup: Arc<Notify>,
    /// The reason for the end of the worker, once it has ended.
    exit_reason: OnceLock<String>,
    process: Mutex<Option<(Child, Option<ChildStderr>)>>,
    services: Arc<Services>,
}

/// A call that has not ended.
pub(super) struct Pending {
    pub(super) answer: oneshot::Sender<CallEnd>,
    pub(super) observer: Option<Arc<dyn Observer>>,
    /// Bytes of log lines and progress that the worker may still send. It enforces the limit itself; this one holds for
    /// a worker that was taken over.
    pub(super) output_budget: usize,
    /// The time of the last report of its cost.
    pub(super) usage_at: Option<Instant>,
    pub(super) deadline: Instant,
    /// The span of the call, around those of its requests.
    pub(super) span: Span,
    /// Created by the first request.
    pub(super) requests: Option<Arc<CallRequests>>,
    /// Returned when the worker is done with the call, not when its caller stops waiting.
    pub(super) _permit: Box<dyn Send>,
}

/// The end of a call.
pub(super) enum CallEnd {
    Answered {
        outcome: Result<Vec<Part>, Failure>,
        cost: Box<Cost>,
        requests: Option<Arc<CallRequests>>,
    },
    /// The worker ended before it answered, with the reason.
    WorkerDied(String),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    pub(super) fn new(socket: Socket, incoming: Receiver, mut child: Child, services: Arc<Services>) -> Arc<Self> {
        let stderr = child.stderr.take();
        let link = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            socket,
            unsent: Mutex::default(),
            incoming: Mutex::new(incoming),
            calls: Mutex::default(),
            protected: Mutex::default(),
            parked: AtomicUsize::new(0),
            wakeup: Arc::new(Notify::new()),
            exit_reason: OnceLock::new(),
            process: Mutex::new(Some((child, stderr))),
            services,
        });
        link.services.runtime().spawn(read_for_parked_callers(Arc::downgrade(&link), Arc::clone(&link.wakeup)));
        link
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(super) fn incoming(&self) -> MutexGuard<'_, Receiver> {
        lock(&self.incoming)
    }

    pub(super) fn runtime(&self) -> &GuestRuntime {
        self.services.runtime()
    }

    pub(super) fn weak(&self) -> Weak<Self> {
        self.this.clone()
    }

    /// Returns the reason for the end of the worker.
    pub(super) fn exit_reason(&self) -> String {
        self.exit_reason.get().cloned().unwrap_or_else(|| "it was ended".to_owned())
    }

    /// Returns whether the worker is gone, after reading what the socket has received so far.
    pub(super) fn has_ended(&self) -> bool {
        if let Ok(incoming) = self.incoming.try_lock() {
            let _more_is_left = self.pump(incoming);
        }
        self.exit_reason.get().is_some()
    }

    /// Sends a call. Its end is sent to `pending.answer`.
    ///
    /// # Errors
    /// If the message is too large.
    pub(super) fn call(self: &Arc<Self>, call: u64, message: &ToWorker, pending: Pending) -> Result<(), String> {
        let frame = frame::encode(message).map_err(|error| error.to_string())?;
        lock(&self.calls).insert(call, pending);
        self.send(frame);
        Ok(())
    }

    /// Records the protected files that the worker was started with.
    pub(super) fn set_protected(&self, files: Arc<ProtectedFiles>) {
        *lock(&self.protected) = files;
    }

    /// Sends the protected files to the worker, unless it has the same list already.
    pub(super) fn protect(self: &Arc<Self>, files: &Arc<ProtectedFiles>) {
        let mut known = lock(&self.protected);
        if !Arc::ptr_eq(&known, files) {
            known.clone_from(files);
            self.notify(&ToWorker::Protect(ProtectedFiles::clone(files)));
        }
    }

    /// Sends any other message. Errors are ignored, because a worker that is gone needs no message.
    pub(super) fn notify(self: &Arc<Self>, message: &ToWorker) {
        if let Ok(frame) = frame::encode(message) {
            self.send(frame);
        }
    }

    fn send(self: &Arc<Self>, frame: Vec<u8>) {
        let mut unsent = lock(&self.unsent);
        if !unsent.is_empty() {
            unsent.push_back(frame);
            return;
        }
        match self.socket.send(&frame, &[], Wait::Never) {
            Ok(sent) if sent == frame.len() => {}
            Ok(sent) => unsent.push_back(frame.get(sent..).unwrap_or_default().to_vec()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => unsent.push_back(frame),
            Err(error) => {
                drop(unsent);
                self.kill(&format!("it takes no messages: {error}"));
                return;
            }
        }
        if !unsent.is_empty() {
            self.services.runtime().spawn(flush(Arc::clone(self)));
        }
    }

    /// Waits for the end of a call.
    pub(super) async fn wait(self: &Arc<Self>, mut answer: oneshot::Receiver<CallEnd>) -> CallEnd {
        let until = Instant::now() + SPIN;
        loop {
            if let Ok(incoming) = self.incoming.try_lock() {
                let _more_is_left = self.pump(incoming);
            }
            match answer.try_recv() {
                Ok(ended) => return ended,
                Err(oneshot::error::TryRecvError::Closed) => return CallEnd::WorkerDied(self.exit_reason()),
                Err(oneshot::error::TryRecvError::Empty) if Instant::now() > until => break,
                Err(oneshot::error::TryRecvError::Empty) => std::thread::yield_now(),
            }
        }
        let _parked = Parked::new(self);
        answer.await.unwrap_or_else(|_| CallEnd::WorkerDied(self.exit_reason()))
    }

    /// Reads and serves the messages that have arrived. Returns true if there may be more: a worker that never stops sending must not
    /// keep a thread.
    fn pump(&self, mut incoming: MutexGuard<'_, Receiver>) -> bool {
        for _ in 0..MAX_READS {
            if self.exit_reason.get().is_some() {
                return false;
            }
            let received = incoming.receive(&self.socket, Wait::Never);
            loop {
                match incoming.next::<FromWorker>() {
                    Ok(Some(message)) => {
                        if let Err(wrong) = self.dispatch(message, &mut incoming) {
                            self.kill(&wrong);
                            return false;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        self.kill(&format!("it does not keep to the protocol: {error}"));
                        return false;
                    }
                }
            }
            match received {
                Ok(Received::Some) => continue,
                Ok(Received::Nothing) => {}
                Ok(Received::Closed) => self.kill(""),
                Err(error) => self.kill(&format!("its socket failed: {error}")),
            }
            return false;
        }
        true
    }

    /// Serves one message of the worker.
    ///
    /// # Errors
    /// If the message violates the protocol.
    fn dispatch(&self, message: FromWorker, incoming: &mut Receiver) -> Result<(), String> {
        match message {
            FromWorker::Ended { call, outcome, cost } => {
                if let Some(pending) = lock(&self.calls).remove(&call) {
                    let Pending { answer, requests, .. } = pending;
                    let _nobody_waits = answer.send(CallEnd::Answered { outcome, cost: Box::new(cost), requests });
                }
            }
            FromWorker::Log { call, level, message } => {
                if let Some(observer) = self.observer_of(call, message.len())? {
                    observer.log(level, &self.services.log_line(&message));
                }
            }
            FromWorker::Progress { call, fraction, message, partial } => {
                let bytes = message.as_ref().map_or(0, String::len) + partial.iter().map(Part::bytes).sum::<usize>();
                if let Some(observer) = self.observer_of(call, bytes)? {
                    observer.progress(self.services.progress(fraction, message, partial));
                }
            }
            FromWorker::Used { call, fuel, peak_memory } => {
                if let Some(observer) = self.observer_of_usage(call) {
                    observer.usage(Usage { fuel, peak_memory: usize::try_from(peak_memory).unwrap_or(usize::MAX) });
                }
            }
            FromWorker::Store { step, patience, what } => self.services.store(self, step, patience, what)?,
            FromWorker::Request { call, head } => {
                let stream = incoming.file().map_err(|error| error.to_string())?;
                if let Some(pending) = lock(&self.calls).get_mut(&call) {
                    self.services.request(pending, head, stream.into());
                }
            }
        }
        if incoming.pending_files() > 0 {
            return Err("it sends descriptors that nobody asked for".to_owned());
        }
        Ok(())
    }

    /// Charges `bytes` of output to a call, and returns its observer, if it has one.
    ///
    /// # Errors
    /// If the call has sent more than its `output_budget`.
    fn observer_of(&self, call: u64, bytes: usize) -> Result<Option<Arc<dyn Observer>>, String> {
        let mut calls = lock(&self.calls);
        let Some(pending) = calls.get_mut(&call) else { return Ok(None) };
        let left = pending.output_budget.checked_sub(bytes);
        pending.output_budget = left.ok_or_else(|| "it says more than any tool may".to_owned())?;
        Ok(pending.observer.clone())
    }

    /// Returns the observer of a pending call, if it is time for a report of its cost.
    fn observer_of_usage(&self, call: u64) -> Option<Arc<dyn Observer>> {
        let mut calls = lock(&self.calls);
        let pending = calls.get_mut(&call)?;
        if pending.usage_at.is_some_and(|at| at.elapsed() < USAGE_INTERVAL) {
            return None;
        }
        pending.usage_at = Some(Instant::now());
        pending.observer.clone()
    }

    /// Returns whether a call is pending.
    pub(super) fn is_pending(&self, call: u64) -> bool {
        lock(&self.calls).contains_key(&call)
    }

    /// Kills the process, and ends every pending call. `why` is the reason for the calls; if it is empty, the exit
    /// status and stderr of the process are.
    pub(super) fn kill(&self, why: &str) {
        let Some((mut child, stderr)) = lock(&self.process).take() else { return };
        // The worker leads a process group of its own. One that has already ended keeps its own exit status.
        process::kill_group(child.id());
        let status = child.wait();
        let why = if why.is_empty() { describe_exit(status, stderr) } else { why.to_owned() };
        let _first = self.exit_reason.set(why.clone());
        let pending: Vec<Pending> = lock(&self.calls).drain().map(|(_, pending)| pending).collect();
        for pending in pending {
            // The worker can neither send the rest of a body nor read a response any more.
            pending.requests.iter().for_each(|requests| requests.end());
            let _nobody_waits = pending.answer.send(CallEnd::WorkerDied(why.clone()));
        }
    }

    /// Returns the id of the process, while it is alive.
    pub(super) fn process_id(&self) -> Option<u32> {
        lock(&self.process).as_ref().map(|(child, _)| child.id())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.kill("it was ended");
        self.wakeup.notify_one();
    }
}

/// Describes how a worker process ended: its signal or exit code, and the beginning of its stderr.
fn describe_exit(status: io::Result<ExitStatus>, stderr: Option<ChildStderr>) -> String {
    let mut how = match status {
        Ok(status) => match status.into() {
            ProcessEnd::ForbiddenCall => "it was ended for a system call that no worker makes (SIGSYS)".to_owned(),
            end @ ProcessEnd::Code(_) => format!("it ended with {end}"),
            end => format!("it was ended by {end}"),
        },
        Err(error) => format!("it ended, and nobody knows how: {error}"),
    };
    let mut words = vec![0; MAX_STDERR_BYTES];
    if let Some(mut stderr) = stderr.filter(has_output)
        && let Ok(read @ 1..) = stderr.read(&mut words)
    {
        let words = String::from_utf8_lossy(words.get(..read).unwrap_or_default());
        how.push_str(&format!(", and said: {}", crate::wasi::guest_output::cut_to(words.trim(), MAX_STDERR_BYTES)));
    }
    how
}
