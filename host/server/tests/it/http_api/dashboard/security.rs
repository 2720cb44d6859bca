//! Logins, forms of other pages, headers, and markup in the texts of guests.

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::hostile::{ESCAPED, MARKUP, RAW};
use super::visitor::{DashboardServer, Visitor};
use crate::http_api::api_server::{Answer, TOKEN};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

#[track_caller]
fn check_headers(answer: &Answer) {
    assert_eq!(answer.header("content-security-policy"), POLICY, "{answer:?}");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("referrer-policy"), "same-origin");
    assert_eq!(answer.header("x-frame-options"), "DENY");
    assert!(matches!(answer.header("cache-control"), "no-store" | "no-cache"), "{answer:?}");
}

#[tokio::test]
async fn pages_lead_strangers_to_the_login() {
    let opened = DashboardServer::new().await;
    let stranger = opened.stranger();
    for page in ["tools", "tools/test__echo", "live", "calls", "approvals", "containment", "health", "nothing", ""] {
        let answer = stranger.get(page).await;
        assert_eq!((answer.status, answer.header("location")), (303, "/dashboard/login"), "{page}");
        check_headers(&answer);
    }
    assert_eq!(stranger.get("live/events").await.status, 403);
    for form in ["logout", "live/stop", "containment/run", "tools/test__say/try", "approvals/components/test"] {
        let answer = stranger.post(form, &[("csrf", "x")]).await;
        assert_eq!(answer.status, 403, "{form}");
        check_headers(&answer);
    }
    for asset in ["dashboard.css", "dashboard.js", "icon.svg"] {
        let answer = stranger.get(&format!("assets/{asset}")).await;
        assert_eq!(answer.status, 200);
        check_headers(&answer);
    }
    assert_eq!(stranger.get("assets/other").await.status, 404);
    let login = stranger.get("login").await;
    assert_eq!((login.status, login.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(login.body.contains("type=\"password\"") && !login.body.contains("Log out"));
    opened.end().await;
}

#[tokio::test]
async fn the_token_opens_a_session_that_ends() {
    let opened = DashboardServer::new().await;
    let stranger = opened.stranger();
    let wrong = stranger.post("login", &[("token", "another-token-of-a-test")]).await;
    assert_eq!((wrong.status, wrong.header("set-cookie")), (403, ""));
    let link = stranger.get(&format!("login?token={TOKEN}")).await;
    assert_eq!((link.status, link.header("location")), (303, "/dashboard/tools"));
    let cookie = link.header("set-cookie").to_owned();
    assert!(
        cookie.starts_with("fumehood-dashboard=") && cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"),
        "{cookie}"
    );
    let visitor = opened.visitor().await;
    assert_eq!(visitor.get("tools").await.status, 200);
    let out = visitor.submit("logout", &[]).await;
    assert_eq!((out.status, out.header("location")), (303, "/dashboard/login"));
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(visitor.get("tools").await.status, 303);
    // The session of the link is another one.
    let other = Visitor { cookie: cookie.split(';').next().unwrap().to_owned(), ..opened.stranger() };
    assert_eq!(other.get("tools").await.status, 200);
    opened.end().await;
    let short = DashboardServer::with(|options| fumehood_server::http_api::dashboard::DashboardOptions {
        session_lifetime: Duration::ZERO,
        ..options
    });
    let short = short.await;
    assert_eq!(short.visitor().await.get("tools").await.status, 303);
    short.end().await;
}

#[tokio::test]
async fn pages_of_the_web_do_not_lock_the_operator_out() {
    let opened = DashboardServer::new().await;
    let stranger = opened.stranger();
    let wrong = "/dashboard/login?token=a-wrong-token-of-a-page";
    for _ in 0..20 {
        let image = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Dest", "image")];
        assert_eq!(stranger.send("GET", wrong, &image, "").await.status, 403);
    }
    // A browser without these headers, or a page that opens windows.
    let statuses: Vec<u16> = {
        let mut statuses = Vec::new();
        for _ in 0..12 {
            statuses.push(stranger.send("GET", wrong, &[("Sec-Fetch-Dest", "document")], "").await.status);
        }
        statuses
    };
    assert_eq!((&statuses[..10], &statuses[10..]), ([403; 10].as_slice(), [429; 2].as_slice()));
    // Not by a frame, even with the right token.
    let right = format!("/dashboard/login?token={TOKEN}");
    let frame = stranger.send("GET", &right, &[("Sec-Fetch-Dest", "iframe")], "").await;
    assert_eq!((frame.status, frame.header("set-cookie")), (403, ""));
    let link = stranger.send("GET", &right, &[("Sec-Fetch-Site", "none"), ("Sec-Fetch-Dest", "document")], "").await;
    assert_eq!((link.status, link.header("location")), (303, "/dashboard/tools"));
    opened.visitor().await;
    opened.end().await;
}

fn approval_form(csrf: &str) -> String {
    format!("csrf={csrf}&decision=approve&pin=sha256%3A1")
}

#[tokio::test]
async fn forms_of_other_pages_are_refused() {
    let opened = DashboardServer::new().await;
    let visitor = opened.visitor().await;
    let other = opened.visitor().await;
    let csrf = visitor.csrf().await;
    let foreign = other.csrf().await;
    assert_ne!(csrf, foreign);
    let form = "approvals/components/changed";
    for wrong in [String::new(), foreign, format!("{csrf}x"), TOKEN.to_owned()] {
        let answer = visitor.send("POST", &format!("/dashboard/{form}"), &[], &approval_form(&wrong)).await;
        assert_eq!(answer.status, 403, "{wrong}");
        check_headers(&answer);
    }
    let own = format!("http://{}", opened.address);
    let check = |headers: Vec<(&'static str, String)>, expected: u16| {
        let visitor = &visitor;
        let body = approval_form(&csrf);
        async move {
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let answer = visitor.send("POST", &format!("/dashboard/{form}"), &headers, &body).await;
            assert_eq!(answer.status, expected, "{headers:?}");
            if expected == 200 {
                check_headers(&answer);
            } else {
                // The listener answers as it does for every protocol, with nothing that a browser would run.
                assert_eq!(answer.header("content-type"), "application/problem+json");
                assert_eq!(answer.header("x-content-type-options"), "nosniff");
            }
        }
    };
    check(vec![("Origin", String::new())], 403).await;
    check(vec![("Origin", "null".to_owned())], 403).await;
    check(vec![("Origin", "http://evil.example".to_owned())], 403).await;
    // Another program of this machine, whose pages have the same site and the same cookie.
    check(vec![("Origin", format!("http://localhost:{}", opened.address.port()))], 403).await;
    check(vec![("Origin", own.clone()), ("Sec-Fetch-Site", "same-site".to_owned())], 403).await;
    check(vec![("Origin", own.clone()), ("Sec-Fetch-Site", "cross-site".to_owned())], 403).await;
    check(vec![("Host", "evil.example".to_owned())], 403).await;
    check(vec![("Content-Type", "text/plain".to_owned())], 415).await;
    check(vec![("Content-Type", String::new())], 415).await;
    assert!(opened.approvals.decided.lock().unwrap().is_empty());
    check(vec![("Sec-Fetch-Site", "same-origin".to_owned())], 200).await;
    assert_eq!(*opened.approvals.decided.lock().unwrap(), ["changed sha256:1 Approve"]);
    opened.end().await;
}

#[tokio::test]
async fn only_reading_and_sending_are_methods() {
    let opened = DashboardServer::new().await;
    let visitor = opened.visitor().await;
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
        for (path, allow) in [
            ("/dashboard/tools", "GET, HEAD"),
            ("/dashboard/live/stop", "POST"),
            ("/dashboard/login", "GET, HEAD, POST"),
            ("/", "GET, HEAD"),
        ] {
            let answer = visitor.send(method, path, &[], "").await;
            assert_eq!((answer.status, answer.header("allow")), (405, allow), "{method} {path}");
        }
    }
    for form in ["live/stop", "logout", "containment/run", "tools/test__echo/try", "approvals/components/test"] {
        let answer = visitor.get(form).await;
        assert_eq!((answer.status, answer.header("allow")), (405, "POST"), "{form}");
    }
    for page in ["tools", "live", "calls", "health"] {
        let answer = visitor.submit(page, &[]).await;
        assert_eq!((answer.status, answer.header("allow")), (405, "GET, HEAD"), "{page}");
    }
    let head = visitor.send("HEAD", "/dashboard/tools", &[], "").await;
    let whole = visitor.get("tools").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.header("content-length"), whole.body.len().to_string());
    assert_eq!(visitor.get("nothing").await.status, 404);
    assert_eq!(visitor.send("GET", "/", &[], "").await.header("location"), "/dashboard/tools");
    assert_eq!(visitor.send("GET", "/v1/tools", &[], "").await.status, 404);
    opened.end().await;
}

/// Asserts that a page shows the text of a guest, and that no part of it is markup.
#[track_caller]
fn check_escaped(page: &str, answer: &Answer) {
    assert!(!answer.body.contains(RAW), "{page}: {}", answer.body);
    assert!(answer.body.contains(ESCAPED), "{page}: {}", answer.body);
    assert!(!answer.body.contains('\u{202e}'), "{page}");
    assert!(!answer.body.contains("href=\"javascript:"), "{page}");
    check_headers(answer);
}

#[tokio::test]
async fn no_text_of_a_guest_is_markup() {
    let opened = DashboardServer::new().await;
    let visitor = opened.visitor().await;
    let waiting = opened.start_waiting(1).await;
    let encoded = utf8_percent_encode(&format!("call/4 {MARKUP}"), NON_ALPHANUMERIC).to_string();
    let pages = ["tools", "tools/test__echo", "tools/test__nested", "live", "calls", "approvals", "sessions/one"];
    for page in pages.map(str::to_owned).into_iter().chain([format!("calls/{encoded}")]) {
        let answer = visitor.get(&page).await;
        assert_eq!(answer.status, 200, "{page}: {}", answer.body);
        check_escaped(&page, &answer);
    }
    let withheld = visitor.get("tools/test__pending").await;
    check_escaped("a withheld tool", &withheld);
    assert!(!withheld.body.contains("Description"), "a withheld tool says nothing of itself");
    for tool in ["say", "fail"] {
        check_escaped(tool, &visitor.submit(&format!("tools/test__{tool}/try"), &[("json", "{}")]).await);
    }
    check_escaped("arguments", &visitor.submit("tools/test__say/try", &[("json", MARKUP)]).await);
    check_escaped("fields", &visitor.submit("tools/test__echo/try", &[("a.0", MARKUP), ("a.2", MARKUP)]).await);
    check_escaped("a filter", &visitor.get(&format!("calls?tool={encoded}&outcome={encoded}")).await);
    check_escaped("an error of the log", &visitor.get("calls?tool=unreadable").await);
    check_escaped(
        "a decision",
        &visitor.submit("approvals/components/test", &[("decision", "revoke"), ("pin", "sha256:1")]).await,
    );
    visitor.submit("containment/run", &[]).await;
    let reported = async {
        loop {
            let page = visitor.get("containment").await;
            if page.body.contains("NOT contained") {
                break page;
            }
        }
    };
    check_escaped("containment", &tokio::time::timeout(crate::http_api::api_server::PATIENCE, reported).await.unwrap());
    waiting.abort();
    opened.end().await;
}
