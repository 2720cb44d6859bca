//! The dashboard of a server: its listener, and the sources of its pages.

mod approvals;
mod self_test;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fumehood::http_api::dashboard::{Dashboard, DashboardOptions, LiveTools};
use fumehood::listener::{Access, HttpOptions, Token};
use fumehood::{Host, LoggedTimelines, QualifiedName, ToolProvider};

use self::approvals::ServedApprovals;
use self::self_test::SelfTest;
use super::server::Listening;
use crate::args::ServeOptions;
use crate::config::Config;
use crate::exit::UsageError;
use crate::recording::Recording;
use crate::render;

/// Maximum size of a form, in bytes.
const MAX_FORM_BYTES: usize = 4 << 20;

/// Binds the listener of the dashboard, if there is to be one. Its requests are rejected until the tools are loaded.
///
/// # Errors
/// If the address is not a loopback address, or cannot be listened at.
pub(super) async fn listen(serve: &ServeOptions) -> Result<Option<Listening>> {
    let Some(address) = serve.dashboard else { return Ok(None) };
    if !address.ip().is_loopback() {
        let message = format!(
            "`--dashboard={address}` can be reached from other machines; use an address such as 127.0.0.1:8081, and \
             `ssh -L 8081:127.0.0.1:8081 HOST` to look at it from elsewhere"
        );
        return Err(UsageError(message).into());
    }
    // Whoever may look is decided by the login: browsers send no bearer tokens.
    let options = HttpOptions { body_bytes: MAX_FORM_BYTES, ..HttpOptions::new(address, Access::Anyone) };
    Listening::start(options).await.map(Some)
}

/// Opens the dashboard of these tools, and prints where it is. Returns the tools to serve instead, so that it knows their
/// calls; without a dashboard, they are the same.
///
/// # Errors
/// If the system has no random bytes for its token.
pub(super) fn in_front_of(
    tools: Arc<dyn ToolProvider>,
    listening: Option<&Listening>,
    (serve, config): (&ServeOptions, &Config),
    (host, recording): (&Host, Option<&Recording>),
) -> Result<Arc<dyn ToolProvider>> {
    let Some(Listening { listener, .. }) = listening else { return Ok(tools) };
    let of_host = host.clone();
    let live = LiveTools::new(tools, move |tool| deadline(&of_host, tool));
    let token = Token::generate()?;
    let url = format!("http://{}/dashboard/login?token={}", listener.address(), token.reveal());
    let log = recording.map(Recording::event_log);
    let approvals = ServedApprovals::new(host.clone(), config.origin.clone(), serve.watch, log.cloned());
    let options = DashboardOptions {
        actor: serve.actor.as_deref().map(Arc::from),
        calls: recording.map(|recording| Arc::new(recording.all_calls()) as _),
        timelines: log.map(|log| Arc::new(LoggedTimelines::new(Arc::clone(log))) as _),
        approvals: Some(Arc::new(approvals)),
        containment: Some(Arc::new(SelfTest)),
        ..DashboardOptions::new(token)
    };
    listener.services().open(vec![Arc::new(Dashboard::new(live.clone(), options, listener))]);
    render::note(&format!("the dashboard is at {url}"));
    Ok(Arc::new(live))
}

/// Returns the usual deadline of the calls of a tool, by its full name; `None` if it is not one of a component.
fn deadline(host: &Host, tool: &str) -> Option<Duration> {
    let (component, _) = QualifiedName::split(tool)?;
    Some(host.component(component)?.limits().deadline)
}
