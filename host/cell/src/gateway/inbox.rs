//! Messages of workers, as a gateway receives them.

use std::time::Duration;

use bytes::Bytes;
use fumehood_core::call::event::Progress;
use fumehood_core::call::result::RequestReport;
use fumehood_core::call::{Observer, Usage};
use fumehood_core::log;
use fumehood_core::text::sanitize::printable;

use super::cell_tools::Inner;
use crate::identity::{FrameError, Role, SessionError, session_id};
use crate::protocol::{Announcement, AttemptId, Introduction, PROTOCOL_VERSION, ToGateway, Welcome, WorkerName};

impl Inner {
    /// Acts upon a message to this gateway: one of a session, or the answer to an exchange of keys.
    pub(super) fn receive(&self, bytes: &Bytes) {
        let ignored = if session_id(bytes).is_some() {
            self.receive_in_session(bytes).map_err(|error| error.to_string())
        } else {
            self.receive_welcome(bytes).map_err(|error| error.to_string())
        };
        if let Err(error) = ignored {
            warn_ignored(&error);
        }
    }

    fn receive_in_session(&self, bytes: &Bytes) -> Result<(), SessionError> {
        // A gateway that was started again, or a command of the same name, hears what is for its other runs.
        let Ok(session) = self.sessions.of_frame(bytes) else { return Ok(()) };
        let (message, body) = session.open::<ToGateway>(bytes)?;
        let worker: &WorkerName = session.peer();
        let result = matches!(message, ToGateway::Ended { .. }).then(|| bytes.slice_ref(body));
        let (effects, observer) = {
            let mut state = self.state();
            let effects = state.calls.on_message(self.now(), worker, &message, result);
            let observer = observed(&message)
                .filter(|attempt| state.calls.is_open(*attempt, worker))
                .and_then(|attempt| state.waiting.get(&attempt))
                .and_then(|waiting| Some((waiting.observer.clone()?, waiting.deadline)));
            (effects, observer)
        };
        if let Some((observer, deadline)) = observer {
            observe(observer.as_ref(), message, deadline);
        }
        self.carry_out(effects);
        Ok(())
    }

    /// Takes the answer of a worker to an exchange of keys: its run is known from now on.
    fn receive_welcome(&self, bytes: &[u8]) -> Result<(), FrameError> {
        let frame = self.link.open::<Welcome>(bytes, Role::Worker)?;
        let worker = frame.envelope.from;
        let welcome = frame.envelope.message;
        if welcome.gateway_run != self.sessions.run() {
            return Ok(());
        }
        let Some(key) = self.link.key_of(&worker) else { return Err(FrameError::Unknown(worker)) };
        if let Err(error) = self.sessions.complete(&self.link, &worker, key, &welcome) {
            warn_ignored(&error.to_string());
            return Ok(());
        }
        let worker: WorkerName = worker.into();
        let run = welcome.worker_run;
        let nonce = welcome.answers.nonce();
        let effects = {
            let now = self.now();
            let mut state = self.state();
            let Some(announcement) = state.introductions.on_answer(now, &worker, run, nonce) else { return Ok(()) };
            let effects = state.calls.on_run(&worker, run);
            let places = announcement.places;
            if state.roster.on_announcement(now, worker.clone(), announcement) {
                log::emit_cell_joined(&worker, places);
            }
            effects
        };
        self.carry_out(effects);
        Ok(())
    }

    pub(super) fn receive_announcement(&self, bytes: &[u8]) {
        let frame = match self.link.open::<Announcement>(bytes, Role::Announcer) {
            Ok(frame) => frame,
            Err(error) => return warn_ignored(&error.to_string()),
        };
        let worker: WorkerName = frame.envelope.from.into();
        let announcement = frame.envelope.message;
        let introduction = {
            let now = self.now();
            let mut state = self.state();
            let introduction = state.introductions.on_announcement(now, &worker, &announcement);
            if matches!(introduction, Introduction::Known | Introduction::Renew) {
                state.roster.on_announcement(now, worker.clone(), announcement.clone());
            }
            introduction
        };
        match introduction {
            Introduction::Ask | Introduction::Renew => self.ask(worker, announcement),
            Introduction::Known | Introduction::Ignore => {}
            Introduction::Incompatible => warn_ignored(&format!(
                "the worker `{worker}` with protocol version {}; this gateway has {PROTOCOL_VERSION}, and versions \
                 may differ by one",
                announcement.version
            )),
        }
    }

    /// Begins an exchange of keys with the run of an announcement.
    fn ask(&self, worker: WorkerName, announcement: Announcement) {
        let (hello, nonce) = match self.sessions.ask(&self.link, announcement.ticket.run) {
            Ok(asked) => asked,
            Err(error) => return tracing::error!(target: "fumehood::cell", "{error}"),
        };
        self.state().introductions.on_asked(self.now(), &worker, nonce, announcement);
        self.link.send(Role::Gateway, &format!("worker.{worker}"), &worker, hello, b"");
    }
}

/// Returns the attempt whose observer a message is for.
fn observed(message: &ToGateway) -> Option<AttemptId> {
    match message {
        ToGateway::Started { attempt }
        | ToGateway::Log { attempt, .. }
        | ToGateway::Progress { attempt, .. }
        | ToGateway::Request { attempt, .. }
        | ToGateway::Used { attempt, .. } => Some(*attempt),
        _ => None,
    }
}

/// Tells an observer what it would hear of a call in this process.
fn observe(observer: &dyn Observer, message: ToGateway, deadline: Duration) {
    match message {
        ToGateway::Started { .. } => observer.admitted(deadline),
        ToGateway::Log { level, message, .. } => observer.log(level, &printable(&message)),
        ToGateway::Progress { fraction, message, partial, .. } => {
            observer.progress(Progress { fraction, message: message.map(Into::into), partial });
        }
        ToGateway::Request { request, .. } => observer.request(RequestReport {
            method: printable(&request.method).into_owned(),
            host: printable(&request.host).into_owned(),
            reason: request.reason.map(|reason| printable(&reason).into_owned()),
            ..request
        }),
        ToGateway::Used { fuel, peak_memory, .. } => {
            observer.usage(Usage { fuel, peak_memory: usize::try_from(peak_memory).unwrap_or(usize::MAX) });
        }
        _ => {}
    }
}

fn warn_ignored(error: &str) {
    tracing::warn!(target: "fumehood::cell", "ignored {error}");
}
