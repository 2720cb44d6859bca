//! The main act of each page.

use fumehood_core::call::Call;
use fumehood_server::http_api::dashboard::DashboardOptions;
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;

use super::hostile::MARKUP;
use super::visitor::DashboardServer;
use crate::http_api::api_server::PATIENCE;

#[tokio::test]
async fn a_form_calls_a_tool_through_the_gate() {
    let opened = DashboardServer::new().await;
    let visitor = opened.visitor().await;
    let page = visitor.get("tools/test__echo").await.body;
    for part in ["name=\"a.0\"", "inputmode=\"decimal\"", "<option value=\"\">not given</option>", "name=\"json\""] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let result = visitor.submit("tools/test__echo/try", &[("a.0", "41"), ("a.2", "two\r\nlines")]).await.body;
    assert!(result.contains("&#34;count&#34;: 41") && result.contains("two\\nlines"), "{result}");
    assert!(result.contains("state good") && result.contains("value=\"41\""), "{result}");
    let wrong = visitor.submit("tools/test__echo/try", &[("a.0", "many"), ("a.2", "x")]).await.body;
    assert!(wrong.contains("`count` must be a number") && wrong.contains("value=\"many\""), "{wrong}");
    // The gate, and not the form, decides what fits.
    let refused = visitor.submit("tools/test__echo/try", &[("json", r#"{"count": "x", "text": ""}"#)]).await.body;
    assert!(refused.contains("invalid_arguments") && refused.contains("state bad"), "{refused}");
    let withheld = visitor.submit("tools/test__pending/try", &[("json", "{}")]).await.body;
    assert!(!withheld.contains("state good") && withheld.contains("withheld"), "{withheld}");
    assert_eq!(visitor.submit("tools/test__nothing/try", &[]).await.status, 404);
    opened.end().await;
}

#[tokio::test]
async fn a_running_call_is_seen_and_killed() {
    let opened = DashboardServer::with_places(2).await;
    let visitor = opened.visitor().await;
    assert!(visitor.get("live").await.body.contains("No call is running."));
    let one = opened.start_waiting(1).await;
    let two = opened.start_waiting(2).await;
    let page = visitor.get("live").await.body;
    for part in
        ["2 calls are running. At most 2 may run and 8 may be queued.", "max=\"60000\"", "25 %", "4321", "1.5 MiB"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    let client = std::sync::Arc::clone(&opened.client);
    let mut third = client.dispatch(Call::new("test__wait", "{}"));
    assert!(third.as_mut().now_or_never().is_none());
    let page = visitor.get("live").await.body;
    assert!(page.contains("2 calls are running, and 1 is queued.") && page.contains("queued</span>"));
    // Its caller leaves.
    drop(third);
    assert!(visitor.get("live").await.body.contains("2 calls are running."));
    assert!(page.contains("<noscript><meta http-equiv=\"refresh\""), "{page}");
    let stopped = visitor.submit("live/stop", &[("call", "1")]).await;
    assert_eq!((stopped.status, stopped.header("location")), (303, "/dashboard/live"));
    let result = tokio::time::timeout(PATIENCE, one).await.expect("it was not stopped").unwrap();
    assert_eq!(result.error().unwrap().message.as_str(), "an operator stopped the call");
    assert!(visitor.get("live").await.body.contains("1 call is running."));
    for wrong in ["1", "3", "x", ""] {
        assert_eq!(visitor.submit("live/stop", &[("call", wrong)]).await.status, 404, "{wrong}");
    }
    assert!(!two.is_finished());
    two.abort();
    let _stopped = two.await;
    assert!(visitor.get("live").await.body.contains("No call is running."));
    opened.end().await;
}

#[tokio::test]
async fn running_calls_are_sent_as_events_until_the_session_ends() {
    let opened = DashboardServer::new().await;
    let visitor = opened.visitor().await;
    let (_sender, response) = visitor.open("GET", "/dashboard/live/events", &[], "").await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    let mut next = async || {
        let frame = tokio::time::timeout(PATIENCE, body.frame()).await.expect("no event");
        frame.map(|frame| String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap())
    };
    let first = next().await.unwrap();
    assert!(
        first.starts_with("event: calls\ndata: ") && first.contains("No call is running.") && first.ends_with("\n\n")
    );
    let waiting = opened.start_waiting(1).await;
    let second = next().await.unwrap();
    assert!(second.contains("1 call is running.") && second.contains("data-call=\"1\""), "{second}");
    let running = opened.running.list(1, |_, _| true).remove(0);
    assert!(second.contains(&format!("href=\"/dashboard/calls/{}\"", running.id)), "{second}");
    let is_field = |line: &str| line.is_empty() || line.starts_with("data: ") || line == "event: calls";
    assert!(second.lines().all(is_field), "{second}");
    visitor.submit("logout", &[]).await;
    while next().await.is_some() {}
    waiting.abort();
    opened.end().await;
}

fn count_rows(page: &str) -> usize {
    page.matches("<tr>").count() - 1
}

#[tokio::test]
async fn recorded_calls_are_filtered_and_paged() {
    let opened = DashboardServer::new().await;
    let visitor = opened.visitor().await;
    let first = visitor.get("calls?outcome=ok").await.body;
    assert_eq!(count_rows(&first), 50);
    assert!(first.contains("<option selected>ok</option>") && !first.contains("state bad"), "{first}");
    let (_, next) = first.split_once("href=\"/dashboard/calls?").unwrap();
    let next = next.split('"').next().unwrap().replace("&#38;", "&");
    assert!(next.starts_with("outcome=ok&before="), "{next}");
    let second = visitor.get(&format!("calls?{next}")).await.body;
    assert_eq!(count_rows(&second), 10);
    assert!(!second.contains("Older calls"));
    let (_, href) = second.split_once("href=\"/dashboard/calls/").unwrap();
    let one = visitor.get(&format!("calls/{}", href.split('"').next().unwrap())).await;
    assert_eq!(one.status, 200);
    for part in ["Arguments", "Result", "Cost", "verdict", "Whole session"] {
        assert!(one.body.contains(part), "{part}: {}", one.body);
    }
    let rare = visitor.get("calls?tool=rare").await.body;
    assert!(rare.contains("there may be older ones") && rare.contains("calls?tool=rare&#38;before=3"), "{rare}");
    assert_eq!(count_rows(&visitor.get("calls?tool=rare&before=3").await.body), 2);
    assert_eq!(visitor.get("calls/none").await.status, 404);
    let session = visitor.get("sessions/one").await.body;
    assert!(session.contains("<rect x=\"") && session.contains("class=\"depth4\""), "{session}");
    opened.end().await;
}

#[tokio::test]
async fn a_row_opens_its_own_call() {
    let opened = DashboardServer::new().await;
    let visitor = opened.visitor().await;
    let page = visitor.get("calls").await.body;
    let hrefs: Vec<&str> =
        page.split("href=\"/dashboard/calls/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(hrefs.len(), 50);
    // Rows whose models chose the same id are of different calls.
    for (number, href) in (1..=120).rev().zip(hrefs).take(7) {
        let one = visitor.get(&format!("calls/{href}")).await.body;
        assert!(one.contains(&format!("<code>call/{number} ")), "{href}: {one}");
    }
    let several = visitor.get(&format!("calls/{}", encode(&format!("call_1_1 {MARKUP}")))).await;
    assert_eq!((several.status, several.body.matches("<tr>").count()), (200, 41), "{several:?}");
    assert!(several.body.contains("href=\"/dashboard/calls/call%2F120") && !several.body.contains("call%2F119"));
    let session = visitor.get("sessions/one").await.body;
    assert!(session.contains("href=\"/dashboard/calls/another\""), "{session}");
    let waiting = visitor.get("approvals").await.body;
    assert!(waiting.contains("href=\"/dashboard/sessions/"), "{waiting}");
    opened.end().await;
}

/// Encodes a part of a path.
fn encode(part: &str) -> String {
    part.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn without_a_log_the_newest_calls_are_listed() {
    let opened =
        DashboardServer::with(|options| DashboardOptions { calls: None, timelines: None, approvals: None, ..options })
            .await;
    let visitor = opened.visitor().await;
    visitor.submit("tools/test__say/try", &[("json", "{}")]).await;
    visitor.submit("tools/test__fail/try", &[("json", "{}")]).await;
    let page = visitor.get("calls").await.body;
    assert!(
        page.contains("The event log is off") && page.contains("tool_failed") && page.contains("test__say"),
        "{page}"
    );
    assert!(!visitor.get("calls?outcome=ok").await.body.contains("<th scope=\"row\">test__fail"));
    assert_eq!(visitor.get("sessions/one").await.status, 404);
    assert!(visitor.get("approvals").await.body.contains("has no configuration"));
    opened.end().await;
}

#[tokio::test]
async fn decisions_are_about_what_was_seen() {
    let opened = DashboardServer::new().await;
    let visitor = opened.visitor().await;
    let page = visitor.get("approvals").await.body;
    assert!(page.contains("Changes since the approval") && page.contains("name=\"pin\" value=\"sha256:1\""), "{page}");
    let stale = visitor.submit("approvals/components/changed", &[("decision", "approve"), ("pin", "sha256:0")]).await;
    assert!(stale.body.contains("it has changed"), "{stale:?}");
    let unsaid = visitor.submit("approvals/components/changed", &[("pin", "sha256:1")]).await;
    assert!(unsaid.body.contains("Nothing was done"), "{unsaid:?}");
    assert!(opened.approvals.decided.lock().unwrap().is_empty());
    visitor.submit("approvals/components/test", &[("decision", "revoke"), ("pin", "sha256:1")]).await;
    visitor.submit("approvals/calls/s-1%3A4", &[("answer", "deny"), ("reason", "not now")]).await;
    visitor.submit("approvals/calls/s-1%3A4", &[("answer", "allow"), ("reason", MARKUP)]).await;
    let decided = opened.approvals.decided.lock().unwrap().clone();
    assert_eq!(decided, ["test sha256:1 Revoke", "s-1:4 false not now", &format!("s-1:4 true {MARKUP}")]);
    opened.end().await;
}

#[tokio::test]
async fn a_self_test_is_run_and_reported() {
    let opened = DashboardServer::new().await;
    let visitor = opened.visitor().await;
    let before = visitor.get("containment").await.body;
    assert!(before.contains("Run the self-test") && !before.contains("Time after deadlines, by run"));
    assert!(
        before.contains("2023-11-14 22:13:20") && before.contains("1.0 min") | before.contains("60.0 s"),
        "{before}"
    );
    assert_eq!(visitor.submit("containment/run", &[]).await.header("location"), "/dashboard/containment");
    let reported = async {
        loop {
            let page = visitor.get("containment").await.body;
            if page.contains("/dashboard/containment?run=2") {
                break page;
            }
        }
    };
    let page = tokio::time::timeout(PATIENCE, reported).await.expect("it never ends");
    // One dot for each attempt, and two for each run.
    assert_eq!((page.matches("class=\"dot\"").count(), page.matches("class=\"dot-p99\"").count()), (3, 2), "{page}");
    assert!(page.contains("Time after deadlines, by run") && page.contains("<polyline"), "{page}");
    assert!(page.contains("2.0 ms") && page.contains("/dashboard/containment?run=1"), "{page}");
    let stored = opened.containment.stored.lock().unwrap().clone();
    assert!(stored.len() == 1 && stored[0].text.contains("overshoot_ms"), "{stored:?}");
    opened.end().await;
}

#[tokio::test]
async fn a_tool_says_who_approved_it_and_what_it_lacks() {
    let opened = DashboardServer::new().await;
    let visitor = opened.visitor().await;
    for page in ["tools", "tools/test__echo"] {
        let page = visitor.get(page).await.body;
        assert!(page.contains("by &#60;/textarea") || page.contains("by &lt;/textarea"), "{page}");
        assert!(page.contains(", 2023-11-14 22:13:20</p>"), "{page}");
        assert!(page.contains("Imported but not granted:") && page.contains("<li>http: "), "{page}");
    }
    opened.end().await;
}

#[tokio::test]
async fn health_counts_calls_by_outcome() {
    let opened = DashboardServer::new().await;
    let visitor = opened.visitor().await;
    let idle = visitor.get("health").await.body;
    assert!(idle.contains("No call has ended") && idle.contains('–') && !idle.contains(">0 ms<"), "{idle}");
    for tool in ["say", "say", "fail"] {
        visitor.submit(&format!("tools/test__{tool}/try"), &[("json", "{}")]).await;
    }
    let page = visitor.get("health").await.body;
    assert!(page.contains("aria-label=\"Calls by outcome: ok 2 tool_failed 1\""), "{page}");
    assert!(page.contains("<polyline") && page.contains("Withheld"), "{page}");
    opened.end().await;
}

/// Returns the processor time of this process in milliseconds (`proc_pid_stat(5)`: utime and stime, in hundredths).
fn processor_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().unwrap() * 10).sum()
}

/// `cargo test -p fumehood-server --all-features --test it thousand_live_calls -- --ignored --nocapture`
#[tokio::test]
#[ignore = "it measures for ten seconds"]
async fn a_thousand_live_calls_cost_little() {
    let opened = DashboardServer::with_places(1_000).await;
    let visitor = opened.visitor().await;
    let client = std::sync::Arc::clone(&opened.client);
    let calls: Vec<_> = (0..1_000)
        .map(|_| {
            let client = std::sync::Arc::clone(&client);
            tokio::spawn(async move { client.dispatch(Call::new("test__wait", "{}")).await })
        })
        .collect();
    let started = tokio::time::timeout(PATIENCE, async {
        while opened.tools.started.load(std::sync::atomic::Ordering::SeqCst) < 1_000 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    });
    started.await.expect("they never start");
    let (_sender, response) = visitor.open("GET", "/dashboard/live/events", &[], "").await;
    let mut body = response.into_body();
    let before = processor_ms();
    let since = std::time::Instant::now();
    let mut events = 0_u32;
    let mut bytes = 0_usize;
    while since.elapsed() < std::time::Duration::from_secs(10) {
        let frame = tokio::time::timeout(PATIENCE, body.frame()).await.expect("no event").unwrap().unwrap();
        bytes += frame.into_data().unwrap().len();
        events += 1;
    }
    let percent = (processor_ms() - before) as f64 * 100.0 / since.elapsed().as_millis() as f64;
    println!("{events} frames, {bytes} bytes, {percent:.1} % of a core");
    assert!(percent <= 5.0, "{percent:.1} %");
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    opened.end().await;
}
