//! The session of the demo: a scripted model calls sandboxed tools, and the event log reveals a later change.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use fumehood::agent::agent::Outcome;
use fumehood::agent::allowlist::Skill;
use fumehood::agent::budget::Budget;
use fumehood::event_log::{EventLog, Options, Reader};
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::record::Recorder;
use fumehood::{CallResult, ErrorKind, Host, Limits, Load};

use super::script::Expectation;
use crate::host;

/// The task of the model.
const TASK: &str = "What is (3 + 5) * 2?";
/// The model's final answer.
const ANSWER: &str = "(3 + 5) * 2 is 16.";
/// A forged answer of the same length, so that it fits in place of the real one.
const FORGED_ANSWER: &str = "(3 + 5) * 2 is 17.";

/// A call of the model, with its expected outcome.
struct Turn {
    what: &'static str,
    tool: &'static str,
    arguments: &'static str,
    expected: Expectation,
    /// Text that the model has to have read before this call.
    after: &'static str,
}

const TURNS: &[Turn] = &[
    Turn {
        what: "ask to add \"3\" and 5",
        tool: "calculator__add",
        arguments: r#"{"a": "3", "b": 5}"#,
        expected: Expectation::Error(ErrorKind::InvalidArguments),
        after: "",
    },
    Turn {
        what: "read that, and add 3 and 5",
        tool: "calculator__add",
        arguments: r#"{"a": 3, "b": 5}"#,
        expected: Expectation::Answer("8"),
        after: "expected a number",
    },
    Turn {
        what: "multiply the 8 by 2",
        tool: "calculator__multiply",
        arguments: r#"{"a": 8, "b": 2}"#,
        expected: Expectation::Answer("16"),
        after: "8",
    },
    Turn {
        what: "call a tool of another skill",
        tool: "memory-bomb__run",
        arguments: "{}",
        expected: Expectation::Error(ErrorKind::NotAllowed),
        after: "16",
    },
    Turn {
        what: "call a tool that hangs",
        tool: "stranger__run",
        arguments: "{}",
        expected: Expectation::Error(ErrorKind::Deadline),
        after: "not allowed for skill",
    },
];

/// Text that the model has to have read before its answer.
const LAST_EXPECTED: &str = "did not finish within";

/// The outcome of the session.
pub(super) struct SessionReport {
    /// Each call: its description, its result, and whether that is as expected.
    pub(super) calls: Vec<(&'static str, CallResult, bool)>,
    /// The model's answer.
    pub(super) answer: String,
    /// True if the answer is the expected one.
    pub(super) is_right: bool,
    /// Number of rows in the log, if its verification succeeded.
    pub(super) verified_rows: Option<u64>,
    /// Finding of the verification of a copy that was changed.
    pub(super) finding: Option<String>,
}

/// Maximum number of attempts to own the log.
const RELEASE_ATTEMPTS: usize = 500;
/// Pause between two attempts.
const RELEASE_PAUSE: Duration = Duration::from_millis(10);

/// Runs the session with the tools of `host`.
///
/// # Errors
/// If there is no room for a log, or the loop cannot be set up.
pub(super) async fn run_session(host: &Host, hanging: Vec<u8>, deadline: Duration) -> Result<SessionReport> {
    let limits = Limits::default().deadline(deadline);
    host::load(host, "stranger", Load::bytes("stranger", hanging).limits(limits)).await?;
    let folder = tempfile::tempdir().context("cannot create a folder for the demo's event log")?;
    let path = folder.path().join("events.db");
    let log = Arc::new(EventLog::open(&path, &Options::default())?);
    let outcome = converse(host, Arc::clone(&log) as _).await?;
    let log = unwrap_log(log).await?;
    log.flush().await?;
    let report = log.reader().verify(None)?;
    log.close()?;
    let executions = outcome.run.steps.iter().flat_map(|step| &step.executions);
    let calls = TURNS.iter().zip(executions);
    let calls = calls.map(|(turn, it)| (turn.what, it.result.clone(), turn.expected.is_met_by(&it.result))).collect();
    Ok(SessionReport {
        calls,
        answer: outcome.text().to_owned(),
        is_right: outcome.text() == ANSWER,
        verified_rows: report.finding.is_none().then_some(report.rows),
        finding: tamper_with_copy(&path, &folder.path().join("copy.db"))?,
    })
}

/// Waits until the log has no other owner, and returns it. Threads that observe calls may own it a moment longer than
/// the last call takes.
async fn unwrap_log(mut log: Arc<EventLog>) -> Result<EventLog> {
    for _ in 0..RELEASE_ATTEMPTS {
        match Arc::try_unwrap(log) {
            Ok(log) => return Ok(log),
            Err(shared) => log = shared,
        }
        tokio::time::sleep(RELEASE_PAUSE).await;
    }
    Err(anyhow!("the demo's event log is still in use"))
}

/// Returns the expected number of calls.
pub(super) const fn expected_calls() -> usize {
    TURNS.len()
}

async fn converse(host: &Host, log: Arc<dyn Recorder>) -> Result<Outcome> {
    let call = |turn: &Turn| ScriptedReply::call(turn.tool, turn.arguments).expect_text(turn.after);
    let mut replies: Vec<ScriptedReply> = TURNS.iter().map(call).collect();
    replies.push(ScriptedReply::text(ANSWER).expect_text(LAST_EXPECTED));
    let own = ["calculator__add", "calculator__multiply", "stranger__run"];
    let skill = own.into_iter().fold(Skill::new(), |skill, tool| skill.component_tool(tool));
    let mut agent = host
        .agent(Arc::new(ScriptedModel::new(replies)))
        .skill("arithmetic", skill)
        .use_skill("arithmetic")
        .budget(Budget { calls: 10, ..Budget::default() })
        .recorder(log)
        .build()?;
    let outcome = agent.run(TASK).await?;
    agent.close().await?;
    Ok(outcome)
}

/// Changes the answer in a copy of the log, as any process with write access could, and returns the finding of its
/// verification.
fn tamper_with_copy(log: &Path, copy: &Path) -> Result<Option<String>> {
    let mut bytes = std::fs::read(log)?;
    let places = find_all(&bytes, ANSWER.as_bytes());
    for place in places {
        if let Some(slice) = bytes.get_mut(place..place.saturating_add(FORGED_ANSWER.len())) {
            slice.copy_from_slice(FORGED_ANSWER.as_bytes());
        }
    }
    std::fs::write(copy, bytes)?;
    std::fs::copy(log.with_extension("db.key"), copy.with_extension("db.key"))?;
    let report = Reader::open(copy, &Options::default())?.verify(None)?;
    Ok(report.finding.map(|finding| finding.to_string()))
}

/// Returns all offsets of `words` in `text`.
fn find_all(text: &[u8], words: &[u8]) -> Vec<usize> {
    text.windows(words.len()).enumerate().filter(|(_, window)| *window == words).map(|(place, _)| place).collect()
}
