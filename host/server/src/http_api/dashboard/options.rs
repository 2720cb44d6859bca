//! The options of the dashboard.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::ports::{Approvals, Containment, Timelines};
use crate::http_api::history::CallStore;
use crate::{Tenants, Token};

/// Default lifetime of a login.
const DEFAULT_SESSION_LIFETIME: Duration = Duration::from_hours(12);

/// The login of a dashboard, and the sources of its pages. A page without its source says what to do to get one.
#[derive(Clone)]
pub struct DashboardOptions {
    /// The token that opens a session.
    pub token: Token,
    /// The time after which a session ends, whatever happens in it.
    pub session_lifetime: Duration,
    /// The version of the server.
    pub version: String,
    /// The actor of calls of the dashboard.
    pub actor: Option<Arc<str>>,
    /// The clients of the server.
    pub tenants: Option<Tenants>,
    /// The recorded calls of all actors.
    pub calls: Option<Arc<dyn CallStore>>,
    /// The records of sessions.
    pub timelines: Option<Arc<dyn Timelines>>,
    /// The approvals of components and of waiting calls.
    pub approvals: Option<Arc<dyn Approvals>>,
    /// The runs of hostile tools.
    pub containment: Option<Arc<dyn Containment>>,
}

impl DashboardOptions {
    /// Returns options without sources, with a login of twelve hours.
    #[must_use]
    pub fn new(token: Token) -> Self {
        Self {
            token,
            session_lifetime: DEFAULT_SESSION_LIFETIME,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            actor: None,
            tenants: None,
            calls: None,
            timelines: None,
            approvals: None,
            containment: None,
        }
    }
}

impl fmt::Debug for DashboardOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { token, session_lifetime, version, actor, tenants, .. } = self;
        let mut shown = f.debug_struct("DashboardOptions");
        shown.field("token", token).field("session_lifetime", session_lifetime).field("version", version);
        shown.field("actor", actor).field("tenants", tenants).finish_non_exhaustive()
    }
}
