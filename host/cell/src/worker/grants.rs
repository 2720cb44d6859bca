//! Grants of gateways that a worker has checked, by the digest of their signed text.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fumehood_core::digest::Digest;

use crate::identity::{Role, Session};
use crate::link::Link;
use crate::protocol::{CallRequest, Grant};

/// Maximum number of grants that are remembered.
const MAX_GRANTS: usize = 8192;

/// Checked grants, each for the session that it names.
#[derive(Debug, Default)]
pub(super) struct Grants {
    checked: HashMap<Digest, Arc<Grant>>,
    /// The oldest first.
    order: VecDeque<Digest>,
}

impl Grants {
    /// Returns the grant that a call names, if it is known or the call carries it, and if it is for this session.
    pub(super) fn of_call(&mut self, link: &Link, session: &Session, request: &CallRequest) -> Option<Arc<Grant>> {
        if !self.checked.contains_key(&request.grant) {
            let grant = verify(link, session, request)?;
            self.remember(request.grant, grant);
        }
        self.checked.get(&request.grant).filter(|grant| grant.session == session.id()).cloned()
    }

    fn remember(&mut self, digest: Digest, grant: Grant) {
        self.checked.insert(digest, Arc::new(grant));
        self.order.push_back(digest);
        while self.order.len() > MAX_GRANTS {
            if let Some(oldest) = self.order.pop_front() {
                self.checked.remove(&oldest);
            }
        }
    }
}

fn verify(link: &Link, session: &Session, request: &CallRequest) -> Option<Grant> {
    let text = BASE64_STANDARD.decode(request.signed_grant.as_deref()?).ok()?;
    let frame = match link.open::<Grant>(&text, Role::Grantor) {
        Ok(frame) => frame,
        Err(error) => {
            tracing::warn!(target: "fumehood::cell", "ignored a grant: {error}");
            return None;
        }
    };
    let is_meant = *frame.envelope.from == **session.peer() && Digest::of(&text) == request.grant;
    is_meant.then_some(frame.envelope.message)
}
