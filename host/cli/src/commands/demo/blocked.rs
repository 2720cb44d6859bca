//! Blocked attempts of the demo: tools with some grants use powers that were not granted.

use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::{Call, CallResult, ErrorKind, Host, Limits, Load};

use super::script::Expectation;
use crate::host;
use crate::hostile_env::{HostileEnv, Powers};

/// An attempt, with its expected outcome.
struct AttemptSpec {
    what: &'static str,
    tool: &'static str,
    /// Arguments as JSON; `{server}` and `{listener}` stand for ports.
    arguments: &'static str,
    expected: Expectation,
}

/// The outcome of an attempt.
pub(super) struct Attempt {
    pub(super) what: &'static str,
    pub(super) result: CallResult,
    /// True if it ended as expected, and nothing escaped.
    pub(super) is_blocked: bool,
}

const FILES: &str = include_str!("../../../../../tests/programs/files.wat");
const FETCH: &str = include_str!("../../../../../tests/programs/fetch.wat");
const ENVIRONMENT: &str = include_str!("../../../../../tests/programs/env-dump.wat");

/// Components of the attempts: name, text and powers.
pub(super) const COMPONENTS: &[(&str, &str, Powers)] = &[
    ("files", FILES, Powers::Folders),
    ("fetch", FETCH, Powers::Server),
    ("outsider", FETCH, Powers::Strangers),
    ("env-dump", ENVIRONMENT, Powers::None),
];

const DENIED: Expectation = Expectation::Error(ErrorKind::Denied);
const QUOTA: Expectation = Expectation::Error(ErrorKind::Quota);

const fn attempt(
    what: &'static str,
    tool: &'static str,
    arguments: &'static str,
    expected: Expectation,
) -> AttemptSpec {
    AttemptSpec { what, tool, arguments, expected }
}

macro_rules! request {
    ($authority:literal, $path:literal) => {
        concat!(
            r#"{"method":"GET","scheme":"http","authority":""#,
            $authority,
            r#"","path":""#,
            $path,
            r#"","headers":[],"send":0,"keep":4096,"patience-ms":0}"#
        )
    };
}

const ATTEMPTS: &[AttemptSpec] = &[
    attempt("read ../canary", "files__read", r#"{"folder":0,"path":"../canary","follow":1}"#, DENIED),
    attempt("follow a link to it", "files__read", r#"{"folder":0,"path":"link-out","follow":1}"#, DENIED),
    attempt(
        "plant a link to /etc/passwd",
        "files__symlink",
        r#"{"folder":1,"target":"/etc/passwd","path":"planted"}"#,
        DENIED,
    ),
    attempt("read /proc/self/environ", "files__read", r#"{"folder":0,"path":"/proc/self/environ","follow":1}"#, DENIED),
    attempt("open a pipe", "files__open", r#"{"folder":0,"path":"pipe","follow":1,"how":0,"for":1}"#, DENIED),
    attempt("remove a read-only file", "files__unlink", r#"{"folder":0,"path":"file.txt"}"#, DENIED),
    attempt(
        "fill the disk",
        "files__write",
        r#"{"folder":1,"path":"full","how":1,"offset":0,"size":65536,"times":1000}"#,
        QUOTA,
    ),
    attempt("make a million files", "files__flood", r#"{"folder":1,"folders":0,"count":1000000}"#, QUOTA),
    attempt("read the environment", "env-dump__variables", "{}", Expectation::Answer("[]")),
    attempt("reach http://0x7f.1", "outsider__fetch", request!("0x7f.1:{listener}", "/"), DENIED),
    attempt(
        "reach http://[::ffff:127.0.0.1]",
        "outsider__fetch",
        request!("[::ffff:127.0.0.1]:{listener}", "/"),
        DENIED,
    ),
    attempt(
        "reach 127.0.0.1 by a granted name",
        "outsider__fetch",
        request!("inner.example.com:{listener}", "/"),
        DENIED,
    ),
    attempt(
        "reach a cloud's metadata service",
        "fetch__fetch",
        request!("169.254.169.254", "/latest/meta-data/"),
        DENIED,
    ),
    attempt("reach a host without a grant", "fetch__fetch", request!("evil.example", "/"), DENIED),
    attempt(
        "read a secret that a server echoes",
        "fetch__fetch",
        request!("127.0.0.1:{server}", "/secret/echo"),
        Expectation::Answer("[secret api]"),
    ),
    attempt(
        "redirect the secret elsewhere",
        "fetch__fetch",
        request!("127.0.0.1:{server}", "/elsewhere"),
        Expectation::Answer("nothing"),
    ),
];

/// Makes all attempts.
///
/// # Errors
/// If there is no room for the folders, no free port on 127.0.0.1, or a tool cannot be loaded.
pub(super) async fn run_attempts(host: &Host, deadline: Duration) -> Result<Vec<Attempt>> {
    let env = HostileEnv::prepare().await?;
    for (name, text, powers) in COMPONENTS {
        let bytes = wat::parse_str(text).with_context(|| format!("the hostile tool `{name}` is not well-formed"))?;
        host::load(host, name, Load::bytes(*name, bytes).grant(env.grant(*powers)?)).await?;
    }
    let limits = Limits::default().deadline(deadline);
    let mut attempts = Vec::new();
    for spec in ATTEMPTS {
        let call = Call::new(spec.tool, env.arguments(spec.arguments)?).limits(limits);
        let result = host.call(call).await;
        let is_blocked =
            spec.expected.is_met_by(&result) && !HostileEnv::has_leak(&result) && env.find_escape().is_none();
        attempts.push(Attempt { what: spec.what, result, is_blocked });
    }
    Ok(attempts)
}

/// Returns the host's own reason for a refused call; `None` if only the tool gives one.
pub(super) fn refusal_reason(result: &CallResult) -> Option<&str> {
    let kind = result.error()?.kind;
    match kind {
        ErrorKind::Denied => result.metadata.refused.first().map(|refusal| refusal.because.as_str()),
        ErrorKind::Quota => result.metadata.exhausted.first().map(String::as_str),
        _ => None,
    }
}
