//! The dashboard of a server: its listener, and the sources of its pages.

mod approvals;
mod containment_reports;

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::Result;
use fumehood::boxed::BoxFuture;
use fumehood::http_api::dashboard::ports::{ComponentImports, ContainmentTest, PortError};
use fumehood::http_api::dashboard::{Dashboard, DashboardOptions};
use fumehood::listener::{Access, HttpOptions, TenantTools, Tenants, Token};
use fumehood::{Host, LoggedTimelines, McpTools, PrintableText, Ungranted};
use tokio::process::Command;

use self::approvals::ServedApprovals;
use self::containment_reports::ContainmentReports;
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
        imports: Some(Arc::new(ServedImports(host.clone()))),
        containment: Some(Arc::new(SelfTest)),
        containment_history: state_folder().map(|state| Arc::new(ContainmentReports::new(state.join("selftest"))) as _),
        ..DashboardOptions::new(token)
    };
    listener.services().open(vec![Arc::new(Dashboard::new(tools, options, listener))]);
    render::note(&format!("the dashboard is at {url}"));
    Ok(())
}

/// The components of a host, with their imports without the power for them.
struct ServedImports(Host);

impl ComponentImports for ServedImports {
    fn ungranted(&self, component: &str) -> Vec<PrintableText> {
        let loaded = self.0.component(component);
        loaded.map(|loaded| by_power(loaded.component().ungranted())).unwrap_or_default()
    }
}

/// Returns a line for each power: `http: wasi:http/outgoing-handler@0.2.6, wasi:http/types@0.2.6`.
fn by_power(ungranted: &[Ungranted]) -> Vec<PrintableText> {
    let mut powers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for import in ungranted {
        powers.entry(import.power.as_str()).or_default().push(&import.name);
    }
    powers.into_iter().map(|(power, names)| format!("{power}: {}", names.join(", ")).into()).collect()
}

/// Runs `selftest --json` of this program, even if the file at its path has been replaced since.
struct SelfTest;

impl ContainmentTest for SelfTest {
    fn run(&self) -> BoxFuture<'static, Result<String, PortError>> {
        Box::pin(async {
            let mut command = Command::new("/proc/self/exe");
            command.args(["selftest", "--json"]).stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
            let failed = |error: std::io::Error| PortError(format!("the self-test did not start: {error}"));
            let output = command.output().await.map_err(failed)?;
            if output.stdout.is_empty() {
                let said = String::from_utf8_lossy(&output.stderr);
                let message = format!("the self-test ended with {} and no report: {}", output.status, said.trim());
                return Err(PortError(message));
            }
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        })
    }
}
