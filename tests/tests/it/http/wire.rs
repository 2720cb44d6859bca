//! Granted requests arrive in the form that the host gives them, and leave an event.

use fumehood::permission::http::HttpLimits;
use fumehood::{ErrorKind, Event, Observed};

use super::server::{Server, ok, respond};
use super::stage::{DetailedRequest, Stage, answer, failed, local, requests};

#[tokio::test]
async fn a_granted_request_arrives_and_its_answer_comes_back() {
    let server = Server::start(|stream, _| ok(stream, "hello"));
    let stage = Stage::new(local(&[&format!("GET http://{}/v1/**", server.at("api.test"))])).await;
    let at = server.at("API.test.");
    let ask = DetailedRequest { headers: &[("accept", "text/plain"), ("X-One", "1")], ..DetailedRequest::new("") };
    let request = format!("GET http://{at}/v1/a/../b?q=1%20#");
    let request = request.trim_end_matches('#');
    let result = stage.ask(DetailedRequest { request, ..ask }).await;
    assert_eq!(answer(&result), (200, "hello".to_owned(), 5));
    let port = server.port();
    let expected = format!(
        "GET /v1/b?q=1%20 HTTP/1.1\r\naccept: text/plain\r\nx-one: 1\r\nhost: api.test:{port}\r\nconnection: close\r\n\r\n"
    );
    assert_eq!(server.seen.head(), expected);
    server.seen.closed();
}

#[tokio::test]
async fn a_body_goes_out_with_a_length_or_in_chunks() {
    let server = Server::start(|stream, _| ok(stream, "thanks"));
    let stage = Stage::new(local(&[&format!("POST http://{}/**", server.at("api.test"))])).await;
    let request = format!("POST http://{}/", server.at("api.test"));
    let result = stage.ask(DetailedRequest { send: 10_000, ..DetailedRequest::new(&request) }).await;
    assert_eq!(answer(&result).0, 200);
    let with_length =
        DetailedRequest { send: 5, headers: &[("content-length", "5")], ..DetailedRequest::new(&request) };
    assert_eq!(answer(&stage.ask(with_length).await).0, 200);
    let heads = server.seen.heads();
    assert!(heads[0].contains("transfer-encoding: chunked\r\n") && !heads[0].contains("content-length"), "{heads:?}");
    assert!(heads[1].contains("content-length: 5\r\n") && !heads[1].contains("chunked"), "{heads:?}");
    assert_eq!(server.seen.body.load(std::sync::atomic::Ordering::SeqCst), 10_005);
}

#[tokio::test]
async fn what_no_rule_allows_is_denied_and_says_which_rule_would() {
    let server = Server::start(|stream, _| ok(stream, "never"));
    let at = server.at("api.test");
    let stage = Stage::new(local(&[&format!("GET http://{at}/v1/**")])).await;
    for request in [
        format!("POST http://{at}/v1/a"),
        format!("GET http://{at}/v2"),
        format!("GET http://{at}/v1/../v2"),
        format!("GET http://{at}/v1/..%2fv2"),
        format!("GET https://{at}/v1/a"),
        format!("GET http://other.test:{}/v1/a", server.port()),
        format!("GET http://api.test@{at}/v1/a"),
        "GET http://api.test/v1/a".to_owned(),
        format!("GET http://127.0.0.1:{}/v1/a", server.port()),
        format!("CONNECT http://{at}/v1/a"),
    ] {
        let result = stage.fetch(&request).await;
        failed(&result, ErrorKind::Denied, "HTTP-request-denied");
        let hint = result.error().unwrap().hint.clone().unwrap();
        assert!(hint.contains("http: ") && hint.contains("was refused, because"), "{request}: {hint}");
        assert_eq!(result.metadata.refused.len(), 1, "{request}");
    }
    assert!(server.seen.heads().is_empty());
}

/// Row 45: host-spoof, te, smuggle.
#[tokio::test]
async fn what_would_mislead_a_server_never_leaves() {
    let server = Server::start(|stream, _| ok(stream, "ok"));
    let at = server.at("api.test");
    let stage = Stage::new(local(&[&format!("GET,POST http://{at}/**")])).await;
    let get = format!("GET http://{at}/");
    for (name, value) in [
        ("Host", "evil.test"),
        ("te", "trailers"),
        ("Transfer-Encoding", "chunked"),
        ("connection", "keep-alive"),
        ("upgrade", "h2c"),
        ("expect", "100-continue"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("x-forwarded-host", "evil.test"),
        ("proxy-authorization", "Basic x"),
        ("via", "1.1 x"),
        ("trailer", "x"),
    ] {
        let result = stage.ask(DetailedRequest { headers: &[(name, value)], ..DetailedRequest::new(&get) }).await;
        failed(&result, ErrorKind::ToolFailed, "header-forbidden");
    }
    for (name, value) in [("x", "a\r\nHost: evil.test"), ("x\r\ny", "a"), ("x y", "a"), ("", "a")] {
        let result = stage.ask(DetailedRequest { headers: &[(name, value)], ..DetailedRequest::new(&get) }).await;
        failed(&result, ErrorKind::ToolFailed, "header-syntax");
    }
    let twice: &[_] = &[("content-length", "1"), ("content-length", "2")];
    failed(
        &stage.ask(DetailedRequest { headers: twice, ..DetailedRequest::new(&get) }).await,
        ErrorKind::ToolFailed,
        "header-syntax",
    );
    for length in ["+5", "5, 5", "0x5", " 5"] {
        let result = stage
            .ask(DetailedRequest { headers: &[("content-length", length)], send: 5, ..DetailedRequest::new(&get) })
            .await;
        assert!(result.error().is_some(), "{length:?}: {result:?}");
    }
    for path in ["http://evil.test/", "*", "evil.test:80", "/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"] {
        failed(
            &stage.ask(DetailedRequest { path: Some(path), ..DetailedRequest::new(&get) }).await,
            ErrorKind::ToolFailed,
            "bad-path",
        );
    }
    assert!(server.seen.heads().is_empty(), "{:?}", server.seen.heads());
}

#[tokio::test]
async fn a_body_that_is_longer_than_it_says_is_no_second_request() {
    let server = Server::start(|stream, _| ok(stream, "ok"));
    let at = server.at("api.test");
    let stage = Stage::new(local(&[&format!("POST http://{at}/**")])).await;
    let post = format!("POST http://{at}/");
    let _ = stage
        .ask(DetailedRequest { headers: &[("content-length", "3")], send: 4096, ..DetailedRequest::new(&post) })
        .await;
    server.seen.closed();
    assert!(server.seen.body.load(std::sync::atomic::Ordering::SeqCst) <= 3);
    assert!(server.seen.heads().len() <= 1);
}

/// Row 44: ssrf-redirect.
#[tokio::test]
async fn a_redirect_is_an_answer_like_any_other() {
    let server =
        Server::start(|stream, _| respond(stream, "302 Found", "location: http://169.254.169.254/latest/\r\n", ""));
    let at = server.at("api.test");
    let stage = Stage::new(local(&[&format!("GET http://{at}/**"), "GET http://meta.test/**"])).await;
    assert_eq!(answer(&stage.fetch(&format!("GET http://{at}/")).await).0, 302);
    failed(&stage.fetch("GET http://169.254.169.254/latest/").await, ErrorKind::Denied, "HTTP-request-denied");
    assert_eq!(server.seen.heads().len(), 1);
}

#[tokio::test]
async fn every_request_leaves_an_event_before_its_call_ends() {
    let server = Server::start(|stream, head| {
        if head.starts_with("GET /broken") {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"))
        } else {
            ok(stream, "hello")
        }
    });
    let at = server.at("api.test");
    let stage = Stage::new(requests(&[&format!("GET http://{at}/**")], &["127.0.0.1/32"], HttpLimits::default())).await;
    let mut events = stage.host.subscribe();
    for path in ["/a?secret=1", "/broken"] {
        let _ = stage.fetch(&format!("GET http://{at}{path}")).await;
    }
    let _ = stage.fetch("DELETE http://other.test/a?secret=1").await;
    let mut told = Vec::new();
    let mut ids = Vec::<String>::new();
    let mut name = |id: String| {
        let number = ids.iter().position(|known| *known == id).unwrap_or_else(|| {
            ids.push(id);
            ids.len() - 1
        });
        format!("call {}", number + 1)
    };
    while let Some(Observed::Event(event)) = events.try_next() {
        match event {
            Event::Request { id, request } => {
                assert_eq!(request.bytes_out > 0, request.method == "GET");
                assert_eq!(request.bytes_in > 0, request.method == "GET");
                let reason = request.reason.unwrap_or_default();
                told.push(format!("{} {} {} {:?} {reason}", name(id), request.method, request.host, request.status));
            }
            Event::Finished { result } => told.push(format!("{} ended", name(result.id.clone()))),
            _ => {}
        }
    }
    let expected = [
        format!("call 1 GET {at} Some(200) "),
        "call 1 ended".to_owned(),
        format!("call 2 GET {at} Some(200) the connection was lost during the response"),
        "call 2 ended".to_owned(),
        "call 3 DELETE other.test None no rule of this tool allows that host".to_owned(),
        "call 3 ended".to_owned(),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_request_that_fails_says_why_in_its_event_and_in_the_result() {
    let hangs_up = Server::start_raw(|mut stream, _| {
        // An unread request would reset the connection instead of closing it.
        let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
    });
    let no_http = Server::start_raw(|mut stream, _| {
        let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
        let _ = std::io::Write::write_all(&mut stream, b"SSH-2.0-none\r\n\r\n");
    });
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ports = [hangs_up.port(), no_http.port(), closed];
    let rules = ports.map(|port| format!("GET http://a.test:{port}/**"));
    let rules: Vec<&str> = rules.iter().map(String::as_str).chain(["GET http://nowhere.example/**"]).collect();
    let stage = Stage::new(local(&rules)).await;
    for (address, expected) in [
        (format!("http://{}/", hangs_up.at("a.test")), "the connection was lost during the response"),
        (format!("http://{}/", no_http.at("a.test")), "the response is not HTTP"),
        (format!("http://a.test:{closed}/"), "the connection failed"),
        ("http://nowhere.example/".to_owned(), "the name was not found"),
    ] {
        let mut events = stage.host.subscribe();
        let result = stage.fetch(&format!("GET {address}")).await;
        let mut told = Vec::new();
        while let Some(Observed::Event(event)) = events.try_next() {
            if let Event::Request { request, .. } = event {
                told.push(request);
            }
        }
        assert_eq!(result.metadata.requests, told, "{result:?}");
        let reasons: Vec<_> = told.iter().map(|request| request.reason.as_deref()).collect();
        assert_eq!(reasons, [Some(expected)], "{address}");
    }
}
