//! The sessions of a gateway: exchanges of keys with workers that announce themselves, and grants for their calls.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fumehood_core::digest::Digest;

use crate::identity::{
    Envelope, Exchange, NodePublicKey, Party, Role, Session, SessionError, SessionTable, Side, seal,
};
use crate::link::Link;
use crate::protocol::{Grant, Hello, PROTOCOL_VERSION, Welcome, WorkerName};

/// Maximum number of exchanges that wait for an answer.
const MAX_EXCHANGES: usize = 4096;
/// Maximum number of grants that are remembered. Beyond that they are signed anew.
const MAX_GRANTS: usize = 4096;

/// The sessions of one run of a gateway.
pub(super) struct Sessions {
    run: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    table: SessionTable,
    exchanges: HashMap<u64, Exchange>,
    grants: HashMap<Grant, IssuedGrant>,
}

/// A grant that was signed.
#[derive(Clone)]
pub(super) struct IssuedGrant {
    pub(super) digest: Digest,
    /// The signed text, until the worker has answered a call that names the grant.
    pub(super) text: Option<Arc<str>>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Sessions {
    pub(super) fn new(run: u64) -> Self {
        Self { run, state: Mutex::default() }
    }

    /// Returns the random number of the run of the gateway.
    pub(super) fn run(&self) -> u64 {
        self.run
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an exchange of keys. Returns the message for the worker, and the number of the exchange.
    pub(super) fn ask(&self, link: &Link, worker_run: u64) -> Result<(Hello, u64), SessionError> {
        let exchange = Exchange::generate()?;
        let key = exchange.public();
        let mut state = self.state();
        if state.exchanges.len() >= MAX_EXCHANGES {
            state.exchanges.clear();
        }
        state.exchanges.insert(key.nonce(), exchange);
        let version = PROTOCOL_VERSION;
        let cell = link.cell().to_owned();
        let gateway_run = self.run;
        Ok((Hello { version, cell, gateway_run, worker_run, key }, key.nonce()))
    }

    /// Completes an exchange with the answer of a worker, whose signature was verified.
    pub(super) fn complete(
        &self,
        link: &Link,
        worker: &str,
        key: NodePublicKey,
        welcome: &Welcome,
    ) -> Result<(), SessionError> {
        let nonce = welcome.answers.nonce();
        let mut state = self.state();
        let is_meant = |exchange: &Exchange| exchange.public() == welcome.answers;
        if welcome.cell != link.cell()
            || welcome.gateway_run != self.run
            || !state.exchanges.get(&nonce).is_some_and(is_meant)
        {
            return Err(SessionError::Unknown);
        }
        let Some(own) = state.exchanges.remove(&nonce) else { return Err(SessionError::Unknown) };
        let gateway =
            Party { name: link.name().to_owned(), key: link.key().public(), run: self.run, exchange: own.public() };
        let worker = Party { name: worker.to_owned(), key, run: welcome.worker_run, exchange: welcome.key };
        let session = Session::derive(own, Side::Gateway, link.cell(), &gateway, &worker)?;
        // Its signature over a key that was never sent before shows that it has the keys.
        session.confirm();
        state.table.insert(Arc::new(session));
        Ok(())
    }

    pub(super) fn of_frame(&self, frame: &[u8]) -> Result<Arc<Session>, SessionError> {
        self.state().table.of_frame(frame)
    }

    pub(super) fn latest(&self, worker: &WorkerName, run: u64) -> Option<Arc<Session>> {
        self.state().table.latest(worker, run).cloned()
    }

    pub(super) fn newest(&self, worker: &WorkerName) -> Option<Arc<Session>> {
        self.state().table.newest(worker).cloned()
    }

    /// Sends nothing to a run of a worker in its sessions any more, because it does not answer.
    pub(super) fn retire(&self, worker: &WorkerName, run: u64) {
        let state = self.state();
        while let Some(session) = state.table.latest(worker, run) {
            session.retire();
        }
    }

    /// Returns the grant for a call: one that was signed before, or a new one.
    pub(super) fn grant(&self, link: &Link, session: &Session, grant: Grant) -> Option<IssuedGrant> {
        if let Some(issued) = self.state().grants.get(&grant) {
            return Some(issued.clone());
        }
        let envelope = Envelope { from: link.name().to_owned(), to: session.peer().to_string(), message: &grant };
        let text = seal(link.key(), Role::Grantor, &envelope, b"").ok()?;
        let issued = IssuedGrant { digest: Digest::of(&text), text: Some(BASE64_STANDARD.encode(text).into()) };
        let mut state = self.state();
        if state.grants.len() >= MAX_GRANTS {
            state.grants.clear();
        }
        state.grants.insert(grant, issued.clone());
        Some(issued)
    }

    /// Notes that a worker has a grant, so that calls need not carry it.
    pub(super) fn on_granted(&self, grant: &Grant) {
        if let Some(issued) = self.state().grants.get_mut(grant) {
            issued.text = None;
        }
    }

    /// Notes that a worker has forgotten a grant: it is signed anew.
    pub(super) fn on_forgotten(&self, grant: &Grant) {
        self.state().grants.remove(grant);
    }
}
