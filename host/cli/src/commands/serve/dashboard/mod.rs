//! The dashboard of a server: its listener, and the sources of its pages.

mod approvals;
mod containment;

use std::sync::Arc;

use anyhow::Result;
use fumehood::http_api::dashboard::{Dashboard, DashboardOptions};
use fumehood::listener::{Access, HttpOptions, TenantTools, Tenants, Token};
use fumehood::{Host, LoggedTimelines, McpTools};

use self::approvals::ServedApprovals;
use self::containment::SelfTest;
use super::server::OpenListener;
use crate::args::ServeOptions;
use crate::config::Config;
use crate::exit::UsageError;
use crate::recording::Recording;
use crate::render;
use crate::user_folders::state_folder;

/// Maximum size of a form, in bytes.
const MAX_FORM_BYTES: usize = 4 << 20;

/// Binds the listener of the dashboard, if there is to be one. Its requests are rejected until the tools are loaded.
///
/// # Errors
/// If the address is not a loopback address, or cannot be listened at.
pub(super) async fn listen(serve: &ServeOptions, config: &Config) -> Result<Option<OpenListener>> {
    let configured = config.serve.dashboard.as_ref().and_then(|setting| setting.address().ok()).flatten();
    let Some(address) = serve.dashboard.or(configured) else { return Ok(None) };
    if !address.ip().is_loopback() {
        let message = format!(
            "`--dashboard={address}` is reachable from other machines; use a loopback address such as 127.0.0.1:8081, \
             and `ssh -L 8081:127.0.0.1:8081 HOST` for access from elsewhere"
        );
        return Err(UsageError(message).into());
    }
    // Whoever may look is decided by the login: browsers send no bearer tokens.
    let options = HttpOptions { body_bytes: MAX_FORM_BYTES, ..HttpOptions::new(address, Access::Anyone) };
    OpenListener::start(options).await.map(Some)
}

/// The parts of a server that its dashboard shows.
pub(super) struct Sources<'a> {
    pub(super) tools: TenantTools,
    pub(super) tenants: Option<Tenants>,
    pub(super) host: &'a Host,
    pub(super) servers: Option<&'a Arc<McpTools>>,
    pub(super) recording: Option<&'a Recording>,
}

/// Opens the dashboard of these tools, and prints where it is.
///
/// # Errors
/// If the system has no random bytes for its token.
pub(super) fn open(
    OpenListener { listener, .. }: &OpenListener,
    Sources { tools, tenants, host, servers, recording }: Sources<'_>,
    serve: &ServeOptions,
    config: &Config,
) -> Result<()> {
    let token = Token::generate()?;
    let url = format!("http://{}/dashboard/login?token={}", listener.address(), token.reveal());
    let log = recording.map(Recording::event_log);
    let approvals = ServedApprovals::new(host.clone(), servers.cloned(), config.clone(), serve.watch, log.cloned());
    let options = DashboardOptions {
        actor: serve.actor.as_deref().map(Arc::from),
        tenants,
        calls: recording.map(|recording| Arc::new(recording.all_calls()) as _),
        timelines: log.map(|log| Arc::new(LoggedTimelines::new(Arc::clone(log))) as _),
        approvals: Some(Arc::new(approvals)),
        containment: Some(Arc::new(SelfTest::new(state_folder().map(|state| state.join("selftest"))))),
        ..DashboardOptions::new(token)
    };
    listener.services().open(vec![Arc::new(Dashboard::new(tools, options, listener))]);
    render::note(&format!("the dashboard is at {url}"));
    Ok(())
}
