//! The pages, one file for each, and what all of them have around them.

pub(crate) mod approvals;
pub(crate) mod calls;
pub(crate) mod containment;
pub(crate) mod health;
pub(crate) mod live;
mod result_view;
pub(crate) mod tools;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use askama::Template;
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::time::Timestamp;
use http::StatusCode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::service::DashboardState;
use crate::http_api::response::{self, Response};

/// Pages in the navigation: path and name.
const PAGES: [(&str, &str); 6] = [
    ("tools", "Tools"),
    ("live", "Live"),
    ("calls", "Calls"),
    ("approvals", "Approvals"),
    ("containment", "Containment"),
    ("health", "Health"),
];
/// Characters that are written as they are in a part of a path (RFC 3986, section 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A request of a browser that is logged in.
pub(crate) struct Visit {
    pub(crate) shared: Arc<DashboardState>,
    /// The token of its forms.
    pub(crate) csrf: String,
}

/// A sentence at the top of a page, about what was just done.
#[derive(Debug, Clone)]
pub(crate) struct Notice {
    text: PrintableText,
    is_good: bool,
}

impl Notice {
    pub(crate) fn good(text: impl Into<PrintableText>) -> Self {
        Self { text: text.into(), is_good: true }
    }

    pub(crate) fn bad(text: impl Into<PrintableText>) -> Self {
        Self { text: text.into(), is_good: false }
    }
}

/// The frame of a page.
#[derive(Debug)]
pub(crate) struct Layout {
    title: PrintableText,
    /// Path of its entry in the navigation.
    section: &'static str,
    version: String,
    /// The token of the form that logs out; `None` if nobody is logged in.
    csrf: Option<String>,
    notice: Option<Notice>,
    reloads_always: bool,
    reloads_without_scripts: bool,
}

impl Layout {
    fn pages(&self) -> [(&'static str, &'static str); 6] {
        PAGES
    }

    fn is_current(&self, path: &&str) -> bool {
        self.section == *path
    }
}

impl Visit {
    /// Creates the frame of a page of this section.
    fn layout(&self, section: &'static str, title: impl Into<PrintableText>) -> Layout {
        Layout {
            title: title.into(),
            section,
            version: self.shared.options.version.clone(),
            csrf: Some(self.csrf.clone()),
            notice: None,
            reloads_always: false,
            reloads_without_scripts: false,
        }
    }
}

#[derive(Template)]
#[template(path = "dashboard/login.html")]
struct LoginPage {
    layout: Layout,
}

#[derive(Template)]
#[template(path = "dashboard/message.html")]
struct MessagePage {
    layout: Layout,
    text: PrintableText,
    href: &'static str,
    link: &'static str,
}

/// Creates the page with the form for the token.
pub(crate) fn login(shared: &Arc<DashboardState>, status: StatusCode, notice: Option<Notice>) -> Response {
    let visit = Visit { shared: Arc::clone(shared), csrf: String::new() };
    let layout = Layout { csrf: None, notice, ..visit.layout("", "Log in") };
    html(status, &LoginPage { layout })
}

/// Creates a page with one sentence.
pub(crate) fn message(visit: &Visit, status: StatusCode, title: &str, text: &str) -> Response {
    let layout = visit.layout("", title);
    html(status, &MessagePage { layout, text: text.into(), href: "/dashboard/tools", link: "Tools" })
}

/// Creates the page of a path or a name that does not exist.
pub(crate) fn not_found(visit: &Visit, text: &str) -> Response {
    message(visit, StatusCode::NOT_FOUND, "Not found", text)
}

/// Renders a page.
fn html(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => response::with_headers(status, response::content_type("text/html; charset=utf-8"), text),
        // Texts and numbers can be formatted; a template has no other errors.
        Err(_) => response::empty(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// Encodes a part of a path.
fn encode(part: &str) -> String {
    utf8_percent_encode(part, UNRESERVED).to_string()
}

/// Returns short forms of the ids of calls; the ids themselves where the log cannot be read.
async fn short_ids(visit: &Visit, ids: Vec<String>) -> HashMap<String, String> {
    let Some(store) = &visit.shared.options.calls else { return HashMap::new() };
    let short = store.abbreviate(ids.clone()).await.unwrap_or_default();
    ids.into_iter().zip(short).collect()
}

/// Returns the path of the page of a recorded call.
pub(crate) fn call_path(id: &str) -> String {
    format!("/dashboard/calls/{}", encode(id))
}

/// Returns the path of the page of a session.
fn session_path(id: &str) -> String {
    format!("/dashboard/sessions/{}", encode(id))
}

/// Formats a time of day and date, in UTC: `2026-11-23 16:35:02`.
fn format_time(at: Timestamp) -> String {
    // Within the range that can be formatted: the log may have any number.
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(at.0.min(253_402_300_799_000));
    humantime::format_rfc3339_seconds(at).to_string().replace('T', " ").replace('Z', "")
}

/// Returns the class of a call's status.
fn tone(status: &str) -> &'static str {
    match status {
        "ok" => "good",
        "running" => "",
        "cancelled" | "denied" | "needs_approval" => "warn",
        _ => "bad",
    }
}

/// Formats a JSON value over several lines.
fn pretty(value: &serde_json::Value) -> PrintableText {
    serde_json::to_string_pretty(value).unwrap_or_default().into()
}
