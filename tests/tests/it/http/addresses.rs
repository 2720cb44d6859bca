//! Addresses outside of the public internet are refused in every spelling, whatever the resolver answers.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering::SeqCst;

use fumehood::permission::http::HttpLimits;
use fumehood::{ErrorKind, Host};

use super::server::{Canary, Server, ok};
use super::stage::{LOCAL, Names, Stage, answer, failed, requests};

/// Row 42: ssrf-literals. All but the last few are 127.0.0.1 or another inner address for some program.
const SPELLINGS: &[&str] = &[
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "127.000.000.001",
    "0177.0.0.1",
    "0177.1",
    "0x7f.1",
    "0x7f.0.0.1",
    "0X7F.0x0.0X0.0x1",
    "0x7f000001",
    "2130706433",
    "017700000001",
    "127.255.255.254",
    "0",
    "0.0.0.0",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fc00::1]",
    "%31%32%37.0.0.1",
    "127.0.0.%31",
    "１２７.0.0.1",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "[::ffff:169.254.169.254]",
    "10.0.0.1",
    "192.168.257",
    "172.16.0.1",
    "100.64.0.1",
    "255.255.255.255",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "ok.example.com@127.0.0.1",
    "127.0.0.1@ok.example.com",
    "ok.example.com.127.0.0.1",
];

#[tokio::test]
async fn no_spelling_of_an_inner_address_is_connected_to() {
    let canary = Canary::new(Ipv4Addr::LOCALHOST, 0);
    let port = canary.port();
    let rules = [format!("GET http://*.example.com:{port}/**"), format!("GET https://*.example.com:{port}/**")];
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let stage = Stage::new(requests(&rules, &[], HttpLimits::default())).await;
    for spelling in SPELLINGS {
        for scheme in ["http", "https"] {
            let result = stage.fetch(&format!("GET {scheme}://{spelling}:{port}/")).await;
            let error = result.error().unwrap_or_else(|| panic!("{spelling}: {result:?}"));
            let never_asked = error.kind == ErrorKind::ToolFailed && error.message.contains("bad-authority");
            assert!(never_asked || error.kind == ErrorKind::Denied, "{spelling}: {error:?}");
        }
    }
    canary.saw_nobody();
}

#[tokio::test]
async fn a_name_for_an_inner_address_is_prohibited_unless_the_address_was_named() {
    let server = Server::start(|stream, _| ok(stream, "inside"));
    let at = server.at("inner.test");
    let request = format!("GET http://{at}/");
    let rule = format!("GET http://{at}/**");
    let closed = Stage::new(requests(&[&rule], &[], HttpLimits::default())).await;
    let result = closed.fetch(&request).await;
    failed(&result, ErrorKind::Denied, "destination-IP-prohibited");
    let hint = result.error().unwrap().hint.clone().unwrap();
    assert!(hint.contains("a loopback address") && hint.contains(r#"private_addresses = ["127.0.0.1/32"]"#), "{hint}");
    assert!(server.seen.heads().is_empty());
    let open = Stage::new(requests(&[&rule], LOCAL, HttpLimits::default())).await;
    assert_eq!(answer(&open.fetch(&request).await).1, "inside");
    let literal = format!("GET http://127.0.0.1:{}/**", server.port());
    let by_address = Stage::new(requests(&[&literal], LOCAL, HttpLimits::default())).await;
    let result = by_address.fetch(&format!("GET http://127.0.0.1:{}/a", server.port())).await;
    assert_eq!(answer(&result).1, "inside");
}

/// Row 43: ssrf-rebind.
#[tokio::test]
async fn a_name_is_asked_once_and_the_checked_address_is_connected() {
    let server = Server::start(|stream, _| ok(stream, "checked"));
    let canary = Canary::new(Ipv4Addr::new(127, 0, 0, 2), server.port());
    let at = server.at("rebind.test");
    let request = format!("GET http://{at}/");
    let names = Names::with("rebind.test", &[&["127.0.0.1"], &["127.0.0.2"], &["127.0.0.1", "127.0.0.2"], &[]]);
    let grant = requests(&[&format!("GET http://{at}/**")], LOCAL, HttpLimits::default());
    let stage = Stage::with(Host::builder().resolver(names.clone()), grant).await;
    assert_eq!(answer(&stage.fetch(&request).await).1, "checked");
    assert_eq!(names.asked.load(SeqCst), 1, "one request, one question");
    failed(&stage.fetch(&request).await, ErrorKind::Denied, "destination-IP-prohibited");
    // A single bad address among good ones is enough.
    failed(&stage.fetch(&request).await, ErrorKind::Denied, "destination-IP-prohibited");
    failed(&stage.fetch(&request).await, ErrorKind::ToolFailed, "DNS-error");
    assert_eq!(names.asked.load(SeqCst), 4);
    assert_eq!(server.seen.heads().len(), 1);
    canary.saw_nobody();
}

#[tokio::test]
async fn a_name_that_is_not_found_and_a_port_where_nobody_listens_are_failures_of_the_tool() {
    let port = Canary::new(Ipv4Addr::LOCALHOST, 0).port();
    let rules = [format!("GET http://gone.test:{port}/**"), "GET http://unknown.example/**".to_owned()];
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let stage = Stage::new(requests(&rules, LOCAL, HttpLimits::default())).await;
    let result = stage.fetch(&format!("GET http://gone.test:{port}/")).await;
    failed(&result, ErrorKind::ToolFailed, "connection-refused");
    failed(&stage.fetch("GET http://unknown.example/").await, ErrorKind::ToolFailed, "DNS-error");
}

#[tokio::test]
async fn this_machines_own_resolver_answers_when_no_other_is_given() {
    let server = Server::start(|stream, _| ok(stream, "home"));
    let at = server.at("localhost");
    let private = &["127.0.0.0/8", "::1/128"];
    let grant = requests(&[&format!("GET http://{at}/**")], private, HttpLimits::default());
    let stage = Stage::with(Host::builder(), grant).await;
    assert_eq!(answer(&stage.fetch(&format!("GET http://{at}/")).await).1, "home");
}
