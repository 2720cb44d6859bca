//! A host with one tool that makes requests, and a resolver that knows the names of the test.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use fumehood::permission::http::{HttpGrant, HttpLimits};
use fumehood::permission::{Injection, Secret, SecretValue};
use fumehood::{Call, CallResult, ErrorKind, Grant, Host, Limits, Load, Resolver};
use fumehood_tests::component;
use serde_json::{Value, json};

/// Addresses that a grant for servers of a test includes.
pub(crate) const LOCAL: &[&str] = &["127.0.0.1/32"];

/// A resolver with fixed answers: a name has a list of them, of which the last one is repeated.
#[derive(Default)]
pub(crate) struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    pub(crate) asked: AtomicUsize,
}

impl Names {
    /// Creates a resolver that finds every name at 127.0.0.1.
    pub(crate) fn local() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn with(name: &str, answers: &[&[&str]]) -> Arc<Self> {
        let parse = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        let answers = answers.iter().map(parse).collect();
        Arc::new(Self { answers: Mutex::new(HashMap::from([(name.to_owned(), answers)])), asked: AtomicUsize::new(0) })
    }
}

impl Resolver for Names {
    fn resolve<'a>(&'a self, host: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        self.asked.fetch_add(1, SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let found = match answers.get_mut(host) {
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => Ok(answers[0].clone()),
            None if host.ends_with(".test") => Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]),
            None => Err(io::Error::other("no such name")),
        };
        Box::pin(async { found })
    }
}

pub(crate) fn requests(rules: &[&str], private: &[&str], limits: HttpLimits) -> Grant {
    let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    let private = private.iter().map(|net| net.parse().unwrap()).collect();
    Grant::none().with_http(HttpGrant::new(rules, private, limits).unwrap())
}

/// Returns a grant of these requests to servers on 127.0.0.1.
pub(crate) fn local(rules: &[&str]) -> Grant {
    requests(rules, LOCAL, HttpLimits::default())
}

pub(crate) fn secret(name: &str, value: &str, target: &str, into: Injection) -> Secret {
    Secret::new(name, SecretValue::new(value).unwrap(), target, into).unwrap()
}

pub(crate) fn bearer() -> Injection {
    Injection::header("Authorization", "Bearer {secret}").unwrap()
}

pub(crate) struct Stage {
    pub(crate) host: Host,
}

impl Stage {
    pub(crate) async fn new(grant: Grant) -> Self {
        Self::with(Host::builder().resolver(Names::local()), grant).await
    }

    pub(crate) async fn with(builder: fumehood::HostBuilder, grant: Grant) -> Self {
        let host = builder.concurrency(4).build().unwrap();
        host.load(Load::bytes("it", component("fetch").unwrap()).grant(grant)).await.unwrap();
        Self { host }
    }

    /// Makes a request, given as `METHOD scheme://authority/path`.
    pub(crate) async fn fetch(&self, request: &str) -> CallResult {
        self.ask(DetailedRequest::new(request)).await
    }

    pub(crate) async fn ask(&self, ask: DetailedRequest<'_>) -> CallResult {
        let (method, address) = ask.request.split_once(' ').unwrap();
        let (scheme, rest) = address.split_once("://").unwrap();
        let (authority, path) = rest.split_at(rest.find(['/', '*', '?']).unwrap_or(rest.len()));
        let headers: Vec<_> = ask.headers.iter().map(|(name, value)| json!([name, value])).collect();
        let arguments = json!({
            "method": method, "scheme": scheme, "authority": authority, "path": ask.path.unwrap_or(path), "headers": headers,
            "send": ask.send, "keep": 4096, "patience-ms": ask.patience_ms,
        });
        let limits = Limits::default().deadline(ask.deadline);
        self.host.call(Call::new("it__fetch", arguments).limits(limits)).await
    }
}

/// A request in detail.
pub(crate) struct DetailedRequest<'a> {
    pub(crate) request: &'a str,
    /// Path to send instead of the one in `request`.
    pub(crate) path: Option<&'a str>,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// Size of the body, in bytes.
    pub(crate) send: u32,
    pub(crate) patience_ms: u32,
    pub(crate) deadline: Duration,
}

impl<'a> DetailedRequest<'a> {
    pub(crate) fn new(request: &'a str) -> Self {
        Self { request, path: None, headers: &[], send: 0, patience_ms: 0, deadline: Duration::from_secs(20) }
    }
}

/// Returns the status, the beginning of the body, and its length.
pub(crate) fn answer(result: &CallResult) -> (u64, String, u64) {
    let value: Value = serde_json::from_str(&result.text().unwrap_or_else(|| panic!("{result:?}"))).unwrap();
    (value["status"].as_u64().unwrap(), value["text"].as_str().unwrap().to_owned(), value["length"].as_u64().unwrap())
}

/// Asserts that a call failed with this kind of error and a message with this text.
pub(crate) fn failed(result: &CallResult, kind: ErrorKind, told: &str) {
    let error = result.error().unwrap_or_else(|| panic!("it should fail: {result:?}"));
    assert_eq!(error.kind, kind, "{error:?}");
    assert!(error.message.contains(told), "{told}: {error:?}");
}
