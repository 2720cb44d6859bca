//! The host's end of the socket to one worker process, with the pending calls.
//!
//! A caller that waits for its call first reads the socket itself for a short time, because most calls end within
//! microseconds and waking another thread takes longer: it polls while a core is free, and sleeps on the socket otherwise.
//! After that, or while another caller reads, a task reads for all waiting callers.

mod pending;
mod process;
mod tasks;

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use fumehood_core::call::Observer;
use fumehood_core::call::limits::Limits;
use fumehood_core::log;
use fumehood_core::policy::permission::files::ProtectedFiles;
use tokio::sync::{Notify, oneshot};
use tracing::Span;

use pending::first_sent;
pub(super) use pending::{CallEnd, CallProgress, Death, Pending};
pub(super) use process::WorkerProcess;
use tasks::{Parked, flush, read_for_parked_callers};

use super::capability_calls::CapabilityCalls;
use super::frame::{self, Message, Received, Receiver};
use super::message::{FromWorker, MESSAGE_MARGIN_BYTES, Part, ToWorker, max_message_bytes};
use super::services::{Services, UsedFunction, UsedStore};
use super::spin::Spinner;
use crate::engine::guest_runtime::GuestRuntime;
use crate::socket::{Socket, Wait};
use crate::wasi::journal;

/// Time for which a caller reads the socket itself before it leaves that to the task. The guest of a call in this process has
/// its thread for longer.
const INLINE_WAIT: Duration = Duration::from_micros(500);
/// Maximum number of reads before others have their turn.
const MAX_READS: usize = 64;

/// The reason for the end of a worker that the host needs no more.
const STOPPED: &str = "it was stopped";

/// The connection to one worker process.
pub(super) struct Link {
    this: Weak<Self>,
    socket: Socket,
    unsent: Mutex<VecDeque<Vec<u8>>>,
    incoming: Mutex<Receiver>,
    spinner: Spinner,
    calls: Mutex<HashMap<u64, Pending>>,
    /// Number of calls that were sent.
    sent: AtomicU64,
    /// Maximum size of a message that the calls of this worker may cause, in bytes.
    max_message_bytes: AtomicUsize,
    /// The protected files that were last sent to the worker.
    protected: Mutex<Arc<ProtectedFiles>>,
    /// Number of callers that left reading to the task.
    parked: AtomicUsize,
    wakeup: Arc<Notify>,
    /// The end of the worker, once it has ended.
    death: OnceLock<Death>,
    process: Mutex<Option<WorkerProcess>>,
    services: Arc<Services>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    pub(super) fn new(
        socket: Socket,
        incoming: Receiver,
        process: WorkerProcess,
        services: Arc<Services>,
    ) -> Arc<Self> {
        let link = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            socket,
            unsent: Mutex::default(),
            incoming: Mutex::new(incoming),
            spinner: Spinner::default(),
            calls: Mutex::default(),
            sent: AtomicU64::new(0),
            max_message_bytes: AtomicUsize::new(MESSAGE_MARGIN_BYTES),
            protected: Mutex::default(),
            parked: AtomicUsize::new(0),
            wakeup: Arc::new(Notify::new()),
            death: OnceLock::new(),
            process: Mutex::new(Some(process)),
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

    /// Returns the end of the worker, after reading what the socket has received so far; `None` if it is alive.
    pub(super) fn death(&self) -> Option<&Death> {
        self.read_received();
        self.death.get()
    }

    /// Returns the reason for the end of the worker.
    pub(super) fn exit_reason(&self) -> String {
        self.death.get().map_or_else(|| STOPPED.to_owned(), |death| death.reason.clone())
    }

    /// Reads and serves what the socket has received so far, unless another caller does that.
    fn read_received(&self) {
        if let Ok(mut incoming) = self.incoming.try_lock() {
            let _more_is_left = self.pump(&mut incoming);
            self.stop_reading(incoming);
        }
    }

    /// Reads and serves what the socket has received. Returns false if nothing is left, or if a caller reads: it wakes the
    /// task when it stops.
    fn pump_if_free(&self) -> bool {
        self.incoming.try_lock().is_ok_and(|mut incoming| self.pump(&mut incoming))
    }

    /// Stops to read, and lets the task look at what arrived meanwhile, which it left to this reader.
    fn stop_reading(&self, incoming: MutexGuard<'_, Receiver>) {
        drop(incoming);
        if self.parked.load(Ordering::SeqCst) > 0 {
            self.wakeup.notify_one();
        }
    }

    /// Sends a call. Its end is sent to `pending.answer`.
    ///
    /// # Errors
    /// If the message is too large.
    pub(super) fn call(
        self: &Arc<Self>,
        call: u64,
        message: &ToWorker,
        limits: &Limits,
        mut pending: Pending,
    ) -> Result<(), String> {
        let frame = frame::encode(message, 0).map_err(|error| error.to_string())?;
        self.max_message_bytes.fetch_max(max_message_bytes(limits), Ordering::SeqCst);
        // Numbered in the order in which they are sent.
        let unsent = lock(&self.unsent);
        pending.progress = CallProgress::Sent(self.sent.fetch_add(1, Ordering::SeqCst));
        lock(&self.calls).insert(call, pending);
        self.send_after(unsent, frame);
        if self.death.get().is_some() {
            self.end_calls();
        }
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
        if let Ok(frame) = frame::encode(message, 0) {
            self.send_after(lock(&self.unsent), frame);
        }
    }

    /// Sends a frame after those that were not sent yet.
    fn send_after(self: &Arc<Self>, mut unsent: MutexGuard<'_, VecDeque<Vec<u8>>>, frame: Vec<u8>) {
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
                self.kill(&format!("it does not accept messages: {error}"));
                return;
            }
        }
        if !unsent.is_empty() {
            self.services.runtime().spawn(flush(Arc::clone(self)));
        }
    }

    pub(super) async fn wait(self: &Arc<Self>, mut answer: oneshot::Receiver<CallEnd>) -> CallEnd {
        if let Ok(incoming) = self.incoming.try_lock()
            && let Some(ended) = self.read_for(&mut answer, incoming)
        {
            return ended;
        }
        let _parked = Parked::new(self);
        let died = |_| CallEnd::WorkerDied { reason: self.exit_reason(), has_begun: true, place: None };
        answer.await.unwrap_or_else(died)
    }

    /// Reads on the thread of a caller until its call has ended or has taken longer than most; `None` then.
    fn read_for(
        &self,
        answer: &mut oneshot::Receiver<CallEnd>,
        mut incoming: MutexGuard<'_, Receiver>,
    ) -> Option<CallEnd> {
        let until = Instant::now() + INLINE_WAIT;
        let mut spin = self.spinner.start();
        let ended = loop {
            let has_more = self.pump(&mut incoming);
            match answer.try_recv() {
                Ok(ended) => break Some(ended),
                Err(oneshot::error::TryRecvError::Closed) => break None,
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break None;
            }
            if !has_more && !spin.turn() {
                self.socket.wait_readable(left);
            }
        };
        self.stop_reading(incoming);
        ended
    }

    /// Reads and serves the messages that have arrived. Returns true if there may be more: a worker that never stops sending must not
    /// keep a thread.
    fn pump(&self, incoming: &mut Receiver) -> bool {
        for _ in 0..MAX_READS {
            if self.death.get().is_some() {
                return false;
            }
            let received = incoming.receive(&self.socket, Wait::Never);
            loop {
                match incoming.next::<FromWorker>(self.max_message_bytes.load(Ordering::SeqCst)) {
                    Ok(Some(message)) => {
                        if let Err(wrong) = self.dispatch(message) {
                            self.kill(&wrong);
                            return false;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        self.kill(&format!("it violates the protocol: {error}"));
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
    fn dispatch(&self, Message { body, files }: Message<FromWorker>) -> Result<(), String> {
        if let Some(pending) = lock(&self.calls).get_mut(&body.call()) {
            pending.progress = CallProgress::Began;
        }
        let body = match body {
            FromWorker::Request { call, head } => {
                let stream = take_stream(files)?;
                if let Some(pending) = lock(&self.calls).get_mut(&call) {
                    self.services.request(pending, head, stream);
                }
                return Ok(());
            }
            FromWorker::Socket { call, wanted } => {
                let stream = take_stream(files)?;
                if let Some(pending) = lock(&self.calls).get_mut(&call) {
                    self.services.socket(pending, wanted, stream);
                }
                return Ok(());
            }
            body => body,
        };
        if !files.is_empty() {
            return Err("it sends descriptors that belong to no message".to_owned());
        }
        match body {
            FromWorker::Ended { call, outcome, cost } => {
                if let Some(pending) = lock(&self.calls).remove(&call) {
                    let Pending { answer, requests, capabilities, .. } = pending;
                    let cost = Box::new(cost);
                    let _nobody_waits = answer.send(CallEnd::Answered { outcome, cost, requests, capabilities });
                }
            }
            FromWorker::Log { call, level, message } => {
                if let Some(observer) = self.observer_of(call, journal::message_bytes(&message))? {
                    observer.log(level, &self.services.log_line(&message));
                }
            }
            FromWorker::Progress { call, fraction, message, partial } => {
                let bytes = journal::update_bytes(message.as_deref(), partial.iter().map(Part::bytes));
                if let Some(observer) = self.observer_of(call, bytes)? {
                    observer.progress(self.services.progress(fraction, message, partial));
                }
            }
            FromWorker::Used { call, usage } => {
                let observer = lock(&self.calls).get_mut(&call).and_then(|pending| pending.report_usage(usage));
                if let Some(observer) = observer {
                    observer.usage(usage);
                }
            }
            FromWorker::Store { call, step, patience, what } => {
                let span = lock(&self.calls).get(&call).map_or_else(Span::none, |pending| pending.span.clone());
                self.services.store(self, span, UsedStore { step, patience, what })?;
            }
            FromWorker::Use { call, step, capability, interface, function, arguments } => {
                if let Some(calls) = self.capabilities_of(call)? {
                    let used = UsedFunction { step, capability, interface, function, arguments };
                    self.services.use_capability(self, &calls, used)?;
                }
            }
            FromWorker::DropHandle { call, capability, resource, handle } => {
                if let Some(calls) = self.capabilities_of(call)? {
                    self.services.drop_handle(&calls, &capability, &resource, handle)?;
                }
            }
            FromWorker::Began { .. } | FromWorker::Request { .. } | FromWorker::Socket { .. } => {}
        }
        Ok(())
    }

    /// Charges `bytes` of output to a call, and returns its observer, if it has one.
    ///
    /// # Errors
    /// See [`Pending::charge_output`].
    fn observer_of(&self, call: u64, bytes: usize) -> Result<Option<Arc<dyn Observer>>, String> {
        lock(&self.calls).get_mut(&call).map_or(Ok(None), |pending| pending.charge_output(bytes))
    }

    /// Returns the capabilities of a call; `None` if it has ended.
    ///
    /// # Errors
    /// If the component has none.
    fn capabilities_of(&self, call: u64) -> Result<Option<Arc<CapabilityCalls>>, String> {
        let calls = lock(&self.calls);
        let Some(pending) = calls.get(&call) else { return Ok(None) };
        let granted = pending.capabilities.clone();
        granted.map(Some).ok_or_else(|| "it uses a capability that is not granted".to_owned())
    }

    /// Cancels a call, and stops what the host does for it.
    pub(super) fn cancel(self: &Arc<Self>, call: u64) {
        if let Ok(Some(capabilities)) = self.capabilities_of(call) {
            capabilities.end();
        }
        self.notify(&ToWorker::Cancel { call });
    }

    pub(super) fn is_pending(&self, call: u64) -> bool {
        lock(&self.calls).contains_key(&call)
    }

    /// Reads what the worker has answered, and kills it because of a call that does not stop.
    pub(super) fn end(&self, why: &str) {
        self.read_received();
        self.kill(why);
    }

    /// Reports the end of the process, unless the host stopped it.
    fn report_death(&self, pid: u32, reason: &str) {
        if reason != STOPPED {
            log::emit_worker_died(self.services.component(), Some(pid), reason);
        }
    }

    /// Kills the process, and ends every pending call. `why` is the reason for the calls; if it is empty, the exit
    /// status and stderr of the process are.
    pub(super) fn kill(&self, why: &str) {
        let Some(process) = lock(&self.process).take() else { return };
        let pid = process.id();
        let exit = process.kill(&self.services.shared().files);
        let reason = if why.is_empty() { exit } else { why.to_owned() };
        self.report_death(pid, &reason);
        let calls = lock(&self.calls);
        let first = first_sent(&calls);
        let begun = calls.values().filter(|pending| pending.progress.has_begun(first));
        let actors = begun.map(|pending| pending.actor.clone()).collect();
        drop(calls);
        let _first = self.death.set(Death { reason, actors });
        self.end_calls();
    }

    /// Ends every pending call of a worker that is dead.
    fn end_calls(&self) {
        let mut calls = lock(&self.calls);
        let first = first_sent(&calls);
        let pending: Vec<Pending> = calls.drain().map(|(_, pending)| pending).collect();
        drop(calls);
        for pending in pending {
            // The worker can neither send the rest of a body nor read a response any more.
            pending.requests.iter().for_each(|requests| requests.end());
            pending.capabilities.iter().for_each(|capabilities| capabilities.end());
            let has_begun = pending.progress.has_begun(first);
            let reason = self.exit_reason();
            let place = Some(pending.place);
            let _nobody_waits = pending.answer.send(CallEnd::WorkerDied { reason, has_begun, place });
        }
    }

    /// Returns the id of the process, while it is alive.
    pub(super) fn process_id(&self) -> Option<u32> {
        lock(&self.process).as_ref().map(WorkerProcess::id)
    }
}

/// Returns the stream that was sent with a request or a connection.
fn take_stream(files: Vec<File>) -> Result<Socket, String> {
    let stream = <[File; 1]>::try_from(files);
    let [stream] = stream.map_err(|_| "it sends a request or a connection without its stream".to_owned())?;
    Ok(stream.into())
}

impl Drop for Link {
    fn drop(&mut self) {
        self.kill(STOPPED);
        self.wakeup.notify_one();
    }
}
