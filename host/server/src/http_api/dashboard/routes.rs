//! The paths of the dashboard: who may ask for them, and the page that answers.

use std::sync::Arc;

use http::header::{ALLOW, CACHE_CONTROL, HeaderValue, LOCATION, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use percent_encoding::percent_decode_str;

use super::login::{COOKIE_NAME, LoginError};
use super::pages::{self, Notice, Visit};
use super::service::DashboardState;
use crate::Token;
use crate::http_api::response::{self, Response};

/// Path of the events of running calls.
const EVENTS_PATH: &str = "/dashboard/live/events";
const PREFIX: &str = "/dashboard/";
const STYLE: &str = include_str!("../../../assets/dashboard.css");
const SCRIPT: &str = include_str!("../../../assets/dashboard.js");
const ICON: &str = include_str!("../../../assets/icon.svg");
/// Header of a browser that says what a response is for.
const SEC_FETCH_DEST: &str = "sec-fetch-dest";
/// Name of the field with the token of a form.
const CSRF_FIELD: &str = "csrf";

/// The fields of a form or a query, in their order.
pub(crate) type Fields = Vec<(String, String)>;

/// Returns whether the response to a request stays open.
pub(crate) fn is_stream(head: &Parts) -> bool {
    head.uri.path() == EVENTS_PATH
}

/// Answers a request.
pub(crate) async fn respond(shared: &Arc<DashboardState>, head: &Parts, body: &[u8]) -> Response {
    let Some(path) = head.uri.path().strip_prefix(PREFIX) else { return redirect("/dashboard/tools") };
    let parts: Option<Vec<String>> = path.split('/').map(decode).collect();
    let parts = parts.unwrap_or_default();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let is_post = head.method == Method::POST;
    match (parts.as_slice(), is_post) {
        (["assets", name], false) => return asset(name),
        (["login"], false) => return log_in_by_link(shared, head),
        (["login"], true) => return log_in(shared, find(&parse_fields(body), "token")),
        _ => {}
    }
    let Some(csrf) = shared.logins.find(&head.headers) else { return logged_out(shared, head) };
    let visit = Visit { shared: Arc::clone(shared), csrf: csrf.reveal().to_owned() };
    if is_post { post(&visit, &csrf, head, &parts, parse_fields(body)).await } else { get(&visit, head, &parts).await }
}

async fn get(visit: &Visit, head: &Parts, parts: &[&str]) -> Response {
    let query = parse_fields(head.uri.query().unwrap_or_default().as_bytes());
    match parts {
        [] | [""] => redirect("/dashboard/tools"),
        ["tools"] => pages::tools::list(visit).await,
        ["tools", name] => pages::tools::show(visit, name).await,
        ["live"] => pages::live::show(visit),
        ["live", "events"] => pages::live::events(visit, &head.headers),
        ["calls"] => pages::calls::list(visit, &query).await,
        ["calls", id] => pages::calls::show(visit, id).await,
        ["sessions", id] => pages::calls::session(visit, id).await,
        ["approvals"] => pages::approvals::show(visit, None).await,
        ["containment"] => pages::containment::show(visit, find(&query, "run")),
        ["health"] => pages::health::show(visit),
        _ if allow(head.uri.path()) == "POST" => method_not_allowed(head),
        _ => pages::not_found(visit, "This page does not exist."),
    }
}

async fn post(visit: &Visit, csrf: &Token, head: &Parts, parts: &[&str], fields: Fields) -> Response {
    if !csrf.matches(find(&fields, CSRF_FIELD)) {
        let text = "This form belongs to another session. Reload the page, and submit the form again.";
        return pages::message(visit, StatusCode::FORBIDDEN, "The form was not accepted", text);
    }
    match parts {
        ["logout"] => {
            visit.shared.logins.end(&head.headers);
            with_cookie(redirect("/dashboard/login"), "", "; Max-Age=0")
        }
        ["tools", name, "try"] => pages::tools::call(visit, name, &fields).await,
        ["live", "stop"] => pages::live::stop(visit, find(&fields, "call")),
        ["approvals", "components", name] => pages::approvals::decide(visit, name, &fields).await,
        ["approvals", "calls", id] => pages::approvals::answer(visit, id, &fields).await,
        ["containment", "run"] => pages::containment::start(visit),
        ["tools" | "live" | "calls" | "sessions" | "approvals" | "containment" | "health", ..] => {
            method_not_allowed(head)
        }
        _ => pages::not_found(visit, "This page does not exist."),
    }
}

/// Answers a request without a session: pages lead to the login.
fn logged_out(shared: &Arc<DashboardState>, head: &Parts) -> Response {
    if is_stream(head) {
        return response::empty(StatusCode::FORBIDDEN);
    }
    if head.method == Method::POST {
        let text = "You are no longer logged in. Nothing was done.";
        pages::login(shared, StatusCode::FORBIDDEN, Some(Notice::bad(text)))
    } else {
        redirect("/dashboard/login")
    }
}

/// Answers the link that the server printed. Images, frames and scripts of pages are no logins (W3C Fetch Metadata, section 2.2).
fn log_in_by_link(shared: &Arc<DashboardState>, head: &Parts) -> Response {
    let query = parse_fields(head.uri.query().unwrap_or_default().as_bytes());
    let is_opened = head.headers.get(SEC_FETCH_DEST).is_none_or(|destination| destination == "document");
    match find(&query, "token") {
        "" => pages::login(shared, StatusCode::OK, None),
        _ if !is_opened => {
            let text = "Open this link in the address bar of a browser. Nothing was done.";
            pages::login(shared, StatusCode::FORBIDDEN, Some(Notice::bad(text)))
        }
        token => log_in(shared, token),
    }
}

fn log_in(shared: &Arc<DashboardState>, token: &str) -> Response {
    let refuse = |status, text| pages::login(shared, status, Some(Notice::bad(text)));
    match shared.logins.begin(token.trim()) {
        Ok(cookie) => with_cookie(redirect("/dashboard/tools"), &cookie, ""),
        Err(LoginError::Wrong) => refuse(StatusCode::FORBIDDEN, "Wrong token. A restarted server prints a new token."),
        Err(LoginError::TooMany) => {
            refuse(StatusCode::TOO_MANY_REQUESTS, "Too many wrong tokens. Wait a minute, and try again.")
        }
        Err(LoginError::Random) => {
            refuse(StatusCode::INTERNAL_SERVER_ERROR, "The system returned no random bytes for a session. Try again.")
        }
    }
}

fn with_cookie(mut response: Response, value: &str, more: &str) -> Response {
    let cookie = format!("{COOKIE_NAME}={value}; HttpOnly; SameSite=Strict; Path=/{more}");
    // Tokens are letters, digits, `-` and `_`.
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Creates a response that leads to another page of the dashboard, to be read with GET.
pub(crate) fn redirect(path: &'static str) -> Response {
    let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static(path))]);
    response::with_headers(StatusCode::SEE_OTHER, headers, "")
}

fn asset(name: &str) -> Response {
    let (media_type, text) = match name {
        "dashboard.css" => ("text/css; charset=utf-8", STYLE),
        "dashboard.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "icon.svg" => ("image/svg+xml", ICON),
        _ => return response::empty(StatusCode::NOT_FOUND),
    };
    let mut headers = response::content_type(media_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response::with_headers(StatusCode::OK, headers, text)
}

/// Returns the methods of a path (RFC 9110, section 10.2.1).
pub(crate) fn allow(path: &str) -> &'static str {
    let parts: Vec<&str> = path.strip_prefix(PREFIX).unwrap_or_default().split('/').collect();
    match parts.as_slice() {
        ["login"] => "GET, HEAD, POST",
        ["logout"] | ["tools", _, "try"] | ["live", "stop"] | ["approvals", "components" | "calls", _] => "POST",
        ["containment", "run"] => "POST",
        _ => "GET, HEAD",
    }
}

fn method_not_allowed(head: &Parts) -> Response {
    let mut response = response::empty(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow(head.uri.path())));
    response
}

/// Decodes a part of a path; `None` if it is not UTF-8.
fn decode(part: &str) -> Option<String> {
    percent_decode_str(part).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

fn parse_fields(text: &[u8]) -> Fields {
    url::form_urlencoded::parse(text).into_owned().collect()
}

/// Returns the value of the first field of this name; empty if there is none.
pub(crate) fn find<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
}
