//! *Live*: the running calls, kept up to date by events, and the button that stops one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use fumehood_core::text::untrusted::PrintableText;
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio_util::bytes::Bytes;

use super::super::charts::format_ms;
use super::super::live_tools::LiveCall;
use super::super::routes::redirect;
use super::super::service::Shared;
use super::{Layout, Visit, html, not_found};
use crate::response::{self, Response};

/// Interval of events.
const EVENT_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of events without one that is sent, so that a client that has left is noticed.
const MAX_QUIET_EVENTS: u32 = 15;
/// Maximum number of calls that are shown.
const MAX_SHOWN: usize = 100;
/// Part of the deadline above which its bar is marked.
const HIGH: f64 = 0.8;

/// A running call, as the page shows it.
struct CallView {
    number: u64,
    tool: PrintableText,
    actor: Option<PrintableText>,
    client: Option<PrintableText>,
    elapsed: String,
    elapsed_ms: u64,
    deadline: Option<String>,
    deadline_ms: Option<u64>,
    high_ms: u64,
    was_stopped: bool,
    percent: Option<u32>,
    said: Option<PrintableText>,
}

#[derive(Template)]
#[template(path = "dashboard/live.html")]
struct LivePage {
    layout: Layout,
    csrf: String,
    count: usize,
    calls: Vec<CallView>,
}

/// The part of the page that events replace.
#[derive(Template)]
#[template(path = "dashboard/live_rows.html")]
struct LiveRows {
    csrf: String,
    count: usize,
    calls: Vec<CallView>,
}

impl CallView {
    fn new(call: LiveCall) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let text = |time: Duration| format_ms(time.as_secs_f64() * 1e3);
        Self {
            number: call.number,
            tool: call.tool,
            actor: call.actor,
            client: call.client,
            elapsed: text(call.elapsed),
            elapsed_ms: millis(call.elapsed),
            deadline: call.deadline.map(text),
            deadline_ms: call.deadline.map(millis),
            high_ms: call.deadline.map_or(0, |deadline| millis(deadline.mul_f64(HIGH))),
            was_stopped: call.was_stopped,
            percent: call.fraction.map(|fraction| (fraction.clamp(0.0, 1.0) * 100.0) as u32),
            said: call.said,
        }
    }
}

fn running(shared: &Shared) -> (usize, Vec<CallView>) {
    let (count, calls) = shared.tools.calls().list(MAX_SHOWN);
    (count, calls.into_iter().map(CallView::new).collect())
}

/// Shows the running calls.
pub(crate) fn show(visit: &Visit) -> Response {
    let (count, calls) = running(&visit.shared);
    let layout = Layout { reloads_without_scripts: true, ..visit.layout("live", "Live") };
    html(StatusCode::OK, &LivePage { layout, csrf: visit.csrf.clone(), count, calls })
}

/// Stops a running call.
pub(crate) fn stop(visit: &Visit, number: &str) -> Response {
    let stopped = number.parse().ok().and_then(|number| visit.shared.tools.calls().stop(number));
    match stopped {
        Some(_) => redirect("/dashboard/live"),
        None => not_found(visit, "There is no such running call. It has probably ended."),
    }
}

/// The state of a stream of events.
struct Events {
    shared: Arc<Shared>,
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
            let (count, calls) = running(&self.shared);
            let html = LiveRows { csrf: self.csrf.clone(), count, calls }.render().ok()?;
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
    let (shared, csrf, headers) = (Arc::clone(&visit.shared), visit.csrf.clone(), headers.clone());
    let events = Events { shared, csrf, headers, last: String::new(), quiet: 0, is_first: true };
    let body = StreamBody::new(stream::unfold(events, Events::next));
    let mut response = Response::new(body.boxed_unsync());
    *response.headers_mut() = response::content_type("text/event-stream");
    response
}
