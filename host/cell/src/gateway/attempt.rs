//! One attempt to run a call at a worker, as a future that stops the guest when it is dropped.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fumehood_core::call::CallContext;
use fumehood_core::call::limits::Limits;
use fumehood_core::tool::ValidatedCall;
use tokio::sync::oneshot;

use super::cell_tools::{Inner, PendingAttempt};
use super::sessions::IssuedGrant;
use crate::identity::Session;
use crate::protocol::{
    AttemptId, CallLimits, CallRequest, Candidate, Conclusion, Grant, GuestStart, Offer, OpenCall, RefusalReason,
    Ticket, ToWorker, WireTrace,
};

/// A call on its way to workers.
pub(super) struct OutgoingCall<'a> {
    pub(super) call: &'a ValidatedCall,
    pub(super) context: &'a CallContext,
    pub(super) offer: &'a Offer,
    /// The limits of the call.
    pub(super) granted: Limits,
    /// The limits, with the time that is left.
    pub(super) limits: Limits,
}

impl OutgoingCall<'_> {
    /// Sends the call to a worker, and waits for its end.
    pub(super) async fn run(&self, inner: &Arc<Inner>, candidate: &Candidate) -> Conclusion<Bytes> {
        let worker = &candidate.worker;
        let run = candidate.ticket.run;
        let not_sent = Conclusion::Interrupted(GuestStart::No);
        let (Ok(bits), Some(session)) = (random_bits(), inner.sessions.latest(worker, run)) else { return not_sent };
        let attempt = AttemptId::from_bits(bits);
        let grant = Grant {
            session: session.id(),
            tool: self.call.tool().full_name().to_owned(),
            offer: self.offer.clone(),
            limits: CallLimits::of(&self.granted).rounded_up(),
        };
        let Some(issued) = inner.sessions.grant(&inner.link, &session, grant.clone()) else { return not_sent };
        let (tell, told) = oneshot::channel();
        let remaining = self.limits.deadline;
        let open = OpenCall { worker: worker.clone(), run, offer: self.offer.clone(), remaining };
        let observer = self.context.observer.clone();
        let waiting = PendingAttempt { tell, worker: worker.clone(), run, deadline: remaining, observer };
        inner.open(attempt, open, waiting);
        let mut guard = Guard { inner, attempt, is_over: false };
        if !self.send(inner, &session, attempt, candidate.ticket, issued) {
            guard.is_over = true;
            inner.withdraw(attempt);
            return not_sent;
        }
        let conclusion = self.wait(inner, attempt, told).await;
        guard.is_over = true;
        match &conclusion {
            Conclusion::Refused(RefusalReason::UnknownGrant) => inner.sessions.on_forgotten(&grant),
            Conclusion::Refused(_) | Conclusion::Finished(_) => inner.sessions.on_granted(&grant),
            _ => {}
        }
        conclusion
    }

    fn send(&self, inner: &Inner, session: &Session, attempt: AttemptId, ticket: Ticket, grant: IssuedGrant) -> bool {
        let request = CallRequest {
            attempt,
            call: self.context.id.clone(),
            ticket,
            grant: grant.digest,
            signed_grant: grant.text.as_deref().map(str::to_owned),
            remaining_us: CallLimits::of(&self.limits).remaining_us,
            actor: self.context.actor.as_deref().map(str::to_owned),
            state: self.context.state.as_deref().map(str::to_owned),
            trace: WireTrace::current(),
        };
        let message = ToWorker::Call(Box::new(request));
        let subject = format!("worker.{}", session.peer());
        inner.link.send_in(session, &subject, &message, self.call.to_text().as_bytes())
    }

    async fn wait(
        &self,
        inner: &Inner,
        attempt: AttemptId,
        mut told: oneshot::Receiver<Conclusion<Bytes>>,
    ) -> Conclusion<Bytes> {
        // The sender is dropped only if the gateway ends.
        let lost = Conclusion::Interrupted(GuestStart::Perhaps);
        let Some(token) = &self.context.cancelled else { return told.await.unwrap_or(lost) };
        tokio::select! {
            // Biased, so that a result that has arrived wins over a cancellation.
            biased;
            conclusion = &mut told => conclusion.unwrap_or(lost),
            () = token.cancelled() => {
                inner.cancel(attempt);
                // The end follows: the answer of the worker, or a cancellation if that does not come in time.
                told.await.unwrap_or(lost)
            }
        }
    }
}

/// Stops the guest of an attempt whose caller does not wait any more.
struct Guard<'a> {
    inner: &'a Inner,
    attempt: AttemptId,
    is_over: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.inner.cancel(self.attempt);
        }
    }
}

fn random_bits() -> Result<u128, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(u128::from_le_bytes(bytes))
}

/// Returns the limits with the time that is left until `ends_at`; `None` if there is none.
pub(super) fn remaining(limits: Limits, elapsed: Duration) -> Option<Limits> {
    let deadline = limits.deadline.checked_sub(elapsed).filter(|left| !left.is_zero())?;
    Some(Limits { deadline, ..limits })
}
