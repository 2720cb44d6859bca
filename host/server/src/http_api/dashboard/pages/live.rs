//! *Live*: the running and waiting calls and the clients, kept up to date by events, and the button that stops a call.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use fumehood_core::call::limits::{display_bytes, display_count};
use fumehood_core::text::abbreviation::abbreviate;
use fumehood_core::text::untrusted::PrintableText;
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio_util::bytes::Bytes;

use super::super::charts::format_ms;
use super::super::routes::redirect;
use super::super::service::DashboardState;
use super::{Layout, Visit, call_path, html, not_found};
use crate::http_api::response::{self, Response};
use crate::{CallPhase, RunningCall, Tenant, TenantTools, Tenants};

const EVENT_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of events without one that is sent, so that a client that has left is noticed.
const MAX_QUIET_EVENTS: u32 = 15;
/// Maximum number of calls that are shown.
const MAX_SHOWN: usize = 100;
/// Part of the deadline above which its bar is marked.
const HIGH: f64 = 0.8;

/// A call that has not ended, as the page shows it.
struct CallView {
    number: u64,
    id: String,
    /// The path of its page, if calls are recorded.
    href: Option<String>,
    tool: PrintableText,
    tenant: Option<PrintableText>,
    actor: Option<PrintableText>,
    client: Option<PrintableText>,
    is_waiting: bool,
    elapsed: String,
    elapsed_ms: u64,
    deadline: Option<String>,
    deadline_ms: Option<u64>,
    high_ms: u64,
    fuel: Option<String>,
    memory: Option<String>,
    was_stopped: bool,
    percent: Option<u32>,
    said: Option<PrintableText>,
}

/// A client with its calls and limits, as the page shows it.
struct TenantView {
    name: PrintableText,
    actor: Option<PrintableText>,
    running: usize,
    waiting: usize,
    calls_today: String,
    fuel_today: String,
    /// Its other limits, one phrase for each.
    limits: Vec<String>,
}

#[derive(Template)]
#[template(path = "dashboard/live.html")]
struct LivePage {
    layout: Layout,
    live: Live,
}

/// The part of the page that events replace.
#[derive(Template)]
#[template(path = "dashboard/live_rows.html")]
struct LiveRows {
    live: Live,
}

/// The state of the calls.
struct Live {
    csrf: String,
    summary: String,
    calls: Vec<CallView>,
    tenants: Vec<TenantView>,
}

impl CallView {
    fn new(call: RunningCall, others: &[String], is_recorded: bool) -> Self {
        Self {
            number: call.number,
            href: is_recorded.then(|| call_path(&call.id)),
            id: abbreviate(&call.id, others.iter().map(String::as_str)).to_owned(),
            tool: call.tool,
            // Most tenants act under their own names, which need not be said twice.
            actor: call.actor.filter(|actor| call.tenant.as_deref() != Some(&**actor)),
            tenant: call.tenant.as_deref().map(PrintableText::from),
            client: call.client,
            is_waiting: call.phase == CallPhase::Waiting,
            elapsed: format_duration(call.elapsed),
            elapsed_ms: to_ms(call.elapsed),
            deadline: call.deadline.map(format_duration),
            deadline_ms: call.deadline.map(to_ms),
            high_ms: call.deadline.map_or(0, |deadline| to_ms(deadline.mul_f64(HIGH))),
            fuel: call.fuel.map(display_count),
            memory: call.peak_memory.map(display_bytes),
            was_stopped: call.was_stopped,
            percent: call.fraction.map(|fraction| (fraction.clamp(0.0, 1.0) * 100.0) as u32),
            said: call.last_line,
        }
    }
}

fn to_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn format_duration(time: Duration) -> String {
    format_ms(time.as_secs_f64() * 1e3)
}

impl TenantView {
    fn new(tenant: &Tenant, served: &TenantTools) -> Self {
        let (running, waiting) = served.running().counts_of(&tenant.name);
        let used = served.used_today(&tenant.name);
        let limits = &tenant.limits;
        let others = [
            limits.requests_per_minute.map(|max| format!("{max} requests a minute")),
            limits.concurrent_requests.map(|max| format!("{max} requests at once")),
            limits.fuel_per_minute.map(|max| format!("{} fuel a minute", display_count(max))),
        ];
        Self {
            name: (&*tenant.name).into(),
            actor: tenant.actor.as_deref().map(PrintableText::from),
            running,
            waiting,
            calls_today: format_used(used.calls.to_string(), limits.calls_per_day.map(|max| max.to_string())),
            fuel_today: format_used(display_count(used.fuel), limits.fuel_per_day.map(display_count)),
            limits: others.into_iter().flatten().collect(),
        }
    }
}

fn format_used(used: String, max: Option<String>) -> String {
    max.map_or_else(|| used.clone(), |max| format!("{used} of {max}"))
}

impl Live {
    fn new(shared: &DashboardState, csrf: String) -> Self {
        let running = shared.served.running();
        let is_recorded = shared.options.calls.is_some();
        let calls = running.list(MAX_SHOWN, |_, _| true);
        let ids: Vec<String> = calls.iter().map(|call| call.id.clone()).collect();
        let calls: Vec<CallView> = calls.into_iter().map(|call| CallView::new(call, &ids, is_recorded)).collect();
        let tenants = shared.options.tenants.iter().flat_map(Tenants::all);
        let tenants = tenants.map(|tenant| TenantView::new(&tenant, &shared.served)).collect();
        let (running, waiting) = running.counts();
        let summary = summary(running, waiting, calls.len(), shared.served.capacity());
        Self { csrf, summary, calls, tenants }
    }
}

/// Says how many calls run and wait, and how many may.
fn summary(running: usize, waiting: usize, shown: usize, capacity: Option<(usize, usize)>) -> String {
    let mut text = match running {
        0 => "No call is running".to_owned(),
        1 => "1 call is running".to_owned(),
        count => format!("{count} calls are running"),
    };
    text += &match waiting {
        0 => ".".to_owned(),
        1 => ", and 1 is queued.".to_owned(),
        count => format!(", and {count} are queued."),
    };
    if let Some((places, queue)) = capacity {
        text += &format!(" At most {places} may run and {queue} may be queued.");
    }
    if running.saturating_add(waiting) > shown {
        text += &format!(" The {shown} oldest are shown.");
    }
    text
}

/// Shows the running calls.
pub(crate) fn show(visit: &Visit) -> Response {
    let layout = Layout { reloads_without_scripts: true, ..visit.layout("live", "Live") };
    html(StatusCode::OK, &LivePage { layout, live: Live::new(&visit.shared, visit.csrf.clone()) })
}

/// Stops a running call.
pub(crate) fn stop(visit: &Visit, number: &str) -> Response {
    if number.parse().is_ok_and(|number| visit.shared.served.running().stop(number)) {
        redirect("/dashboard/live")
    } else {
        not_found(visit, "This call is not running. It has probably ended.")
    }
}

/// The state of a stream of events.
struct Events {
    shared: Arc<DashboardState>,
    csrf: String,
    headers: HeaderMap,
    last: String,
    quiet: u32,
    is_first: bool,
}

impl Events {
    /// Waits for the next event, and returns it; `None` if the session or the server has ended.
    async fn next(mut self) -> Option<(Result<Frame<Bytes>, Infallible>, Self)> {
        let stopped = self.shared.stopped.clone();
        loop {
            if !std::mem::take(&mut self.is_first) {
                stopped.run_until_cancelled(tokio::time::sleep(EVENT_INTERVAL)).await?;
            }
            if !self.shared.logins.is_open(&self.headers) {
                return None;
            }
            let live = Live::new(&self.shared, self.csrf.clone());
            let html = LiveRows { live }.render().ok()?;
            self.quiet = self.quiet.saturating_add(1);
            let event = match html == self.last {
                true if self.quiet < MAX_QUIET_EVENTS => continue,
                true => ":\n\n".to_owned(),
                false => event(&html),
            };
            (self.quiet, self.last) = (0, html);
            return Some((Ok(Frame::data(Bytes::from(event))), self));
        }
    }
}

/// Formats an event. A carriage return would end a line of it, too; hidden characters were written out.
fn event(html: &str) -> String {
    let lines: String = html.lines().map(|line| format!("data: {line}\n")).collect();
    format!("event: calls\n{lines}\n")
}

/// Sends the running calls whenever they change, at most once a second.
pub(crate) fn events(visit: &Visit, headers: &HeaderMap) -> Response {
    let shared = Arc::clone(&visit.shared);
    let csrf = visit.csrf.clone();
    let headers = headers.clone();
    let events = Events { shared, csrf, headers, last: String::new(), quiet: 0, is_first: true };
    let body = StreamBody::new(stream::unfold(events, Events::next));
    response::events(body)
}

#[cfg(test)]
mod tests {
    use fumehood_core::time::Timestamp;

    use super::*;

    #[test]
    fn says_how_many_of_the_calls_are_listed() {
        check_summary(0, 0, 0, "No call is running. At most 200 may run and 9 may be queued.");
        check_summary(90, 10, 100, "90 calls are running, and 10 are queued. At most 200 may run and 9 may be queued.");
        let text = "149 calls are running, and 1 is queued. At most 200 may run and 9 may be queued. The 100 \
                    oldest are shown.";
        check_summary(149, 1, 100, text);
    }

    fn check_summary(running: usize, waiting: usize, shown: usize, expected: &str) {
        assert_eq!(summary(running, waiting, shown, Some((200, 9))), expected);
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn names_in_view(tenant: Option<&str>, actor: Option<&str>) -> (Option<String>, Option<String>) {
        let view = CallView::new(
            RunningCall {
                number: 1,
                id: "1".to_owned(),
                model_call: None,
                tool: "t".into(),
                tenant: tenant.map(Arc::from),
                actor: actor.map(PrintableText::from),
                client: None,
                phase: CallPhase::Running,
                started_at: Timestamp(0),
                elapsed: Duration::ZERO,
                deadline: None,
                fuel: Some(77_286),
                peak_memory: None,
                fraction: None,
                last_line: None,
                was_stopped: false,
            },
            &[],
            true,
        );
        assert_eq!(view.fuel.as_deref(), Some("77.3 k"));
        (view.tenant.map(|name| name.to_string()), view.actor.map(|name| name.to_string()))
    }

    #[test]
    fn a_tenant_that_acts_under_its_own_name_is_named_once() {
        assert_eq!(names_in_view(Some("a"), Some("a")), (text("a"), None));
        assert_eq!(names_in_view(Some("a"), Some("b")), (text("a"), text("b")));
        assert_eq!(names_in_view(None, Some("b")), (None, text("b")));
    }
}
