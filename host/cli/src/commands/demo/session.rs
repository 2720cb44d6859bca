//! The demo's second act: a scripted model works with the sandboxed tools, and all of it is in a log that nobody can
//! change unseen.

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

use super::script::Expected;
use crate::host;

/// The task of the model.
const TASK: &str = "What is (3 + 5) * 2?";
/// What it says in the end.
const ANSWER: &str = "(3 + 5) * 2 is 16.";
/// What somebody would like it to have said. As long as that, so that it fits in the place of it.
const FORGED: &str = "(3 + 5) * 2 is 17.";

/// One call of the model, and how it has to end.
struct Turn {
    what: &'static str,
    tool: &'static str,
    arguments: &'static str,
    expected: Expected,
    /// What the model has to have read before it makes this call.
    after: &'static str,
}

const TURNS: &[Turn] = &[
    Turn {
        what: "ask to add \"3\" and 5",
        tool: "calculator__add",
        arguments: r#"{"a": "3", "b": 5}"#,
        expected: Expected::Error(ErrorKind::InvalidArguments),
        after: "",
    },
    Turn {
        what: "read that, and add 3 and 5",
        tool: "calculator__add",
        arguments: r#"{"a": 3, "b": 5}"#,
        expected: Expected::Answer("8"),
        after: "expected a number",
    },
    Turn {
        what: "multiply the 8 by 2",
        tool: "calculator__multiply",
        arguments: r#"{"a": 8, "b": 2}"#,
        expected: Expected::Answer("16"),
        after: "8",
    },
    Turn {
        what: "reach for a tool of another skill",
        tool: "memory-bomb__run",
        arguments: "{}",
        expected: Expected::Error(ErrorKind::NotAllowed),
        after: "16",
    },
    Turn {
        what: "call a tool that hangs",
        tool: "stranger__run",
        arguments: "{}",
        expected: Expected::Error(ErrorKind::Deadline),
        after: "not allowed for skill",
    },
];

/// The last thing that it reads.
const LAST: &str = "did not finish within";

/// What came of the second act.
pub(super) struct Session {
    /// Each call with what was tried.
    pub(super) calls: Vec<(&'static str, CallResult, bool)>,
    /// What the model said.
    pub(super) answer: String,
    /// Whether that is what it should have said.
    pub(super) is_right: bool,
    /// How many rows the log has, if all of them are what was written.
    pub(super) whole: Option<u64>,
    /// What was found in a copy that somebody had changed.
    pub(super) tampered: Option<String>,
}

/// Attempts to have the log alone, and the pause between them.
const RELEASE_ATTEMPTS: usize = 500;
const RELEASE_PAUSE: Duration = Duration::from_millis(10);

/// Plays it.
///
/// # Errors
/// If there is no room for a log, or the loop cannot be set up.
pub(super) async fn play(host: &Host, hanging: Vec<u8>, deadline: Duration) -> Result<Session> {
    let limits = Limits { deadline, ..Limits::default() };
    host::load(host, "stranger", Load::bytes("stranger", hanging).with_limits(limits)).await?;
    let folder = tempfile::tempdir().context("there is no room for the demo's event log")?;
    let path = folder.path().join("events.db");
    let log = Arc::new(EventLog::open(&path, &Options::default())?);
    let outcome = converse(host, Arc::clone(&log) as _).await?;
    let log = alone(log).await?;
    log.flush().await?;
    let report = log.reader().verify(None)?;
    log.close()?;
    let executions = outcome.run.steps.iter().flat_map(|step| &step.executions);
    let calls = TURNS.iter().zip(executions);
    let calls = calls.map(|(turn, it)| (turn.what, it.result.clone(), turn.expected.is_met_by(&it.result))).collect();
    Ok(Session {
        calls,
        answer: outcome.text().to_owned(),
        is_right: outcome.text() == ANSWER,
        whole: report.finding.is_none().then_some(report.rows),
        tampered: tampered(&path, &folder.path().join("copy.db"))?,
    })
}

/// The log, once the last thread that hears of calls has let go of it: that may be a moment after the last call has ended.
async fn alone(mut log: Arc<EventLog>) -> Result<EventLog> {
    for _ in 0..RELEASE_ATTEMPTS {
        match Arc::try_unwrap(log) {
            Ok(log) => return Ok(log),
            Err(shared) => log = shared,
        }
        tokio::time::sleep(RELEASE_PAUSE).await;
    }
    Err(anyhow!("the demo's event log is still in use"))
}

/// How many calls there have to be.
pub(super) const fn calls() -> usize {
    TURNS.len()
}

async fn converse(host: &Host, log: Arc<dyn Recorder>) -> Result<Outcome> {
    let call = |turn: &Turn| ScriptedReply::call(turn.tool, turn.arguments).expect_text(turn.after);
    let mut replies: Vec<ScriptedReply> = TURNS.iter().map(call).collect();
    replies.push(ScriptedReply::text(ANSWER).expect_text(LAST));
    let own = ["calculator__add", "calculator__multiply", "stranger__run"];
    let skill = own.into_iter().fold(Skill::new(), |skill, tool| skill.component_tool(tool));
    let mut agent = host
        .agent(Arc::new(ScriptedModel::new(replies)))
        .skill("arithmetic", skill)
        .use_skill("arithmetic")
        .with_budget(Budget { calls: 10, ..Budget::default() })
        .with_recorder(log)
        .build()?;
    let outcome = agent.run(TASK).await?;
    agent.close().await?;
    Ok(outcome)
}

/// Changes the answer in a copy of the log as anybody could who may write the file; says what is found there.
fn tampered(log: &Path, copy: &Path) -> Result<Option<String>> {
    let key = |path: &Path| path.with_extension("db.key");
    let mut bytes = std::fs::read(log)?;
    let places = places_of(&bytes, ANSWER.as_bytes());
    for place in places {
        if let Some(said) = bytes.get_mut(place..place.saturating_add(FORGED.len())) {
            said.copy_from_slice(FORGED.as_bytes());
        }
    }
    std::fs::write(copy, bytes)?;
    std::fs::copy(key(log), key(copy))?;
    let report = Reader::open(copy, &Options::default())?.verify(None)?;
    Ok(report.finding.map(|finding| finding.to_string()))
}

/// Where the words are.
fn places_of(text: &[u8], words: &[u8]) -> Vec<usize> {
    text.windows(words.len()).enumerate().filter(|(_, window)| *window == words).map(|(place, _)| place).collect()
}
