//! Runs the cases one by one, and measures what each of them cost this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use fumehood::{Call, CallResult, ErrorKind, Host, Limits};
use serde::Serialize;
use tokio::task::JoinSet;

use super::cases::{Case, Ends};
use super::loads::Refused;
use super::process;
use crate::hostile_env::HostileEnv;

/// For what would never end: little enough that nobody waits long.
const SHORT: Duration = Duration::from_millis(100);
/// For all others: enough on a slow machine that is busy with something else.
const LONG: Duration = Duration::from_secs(10);
/// What a busy machine may add to a deadline before the case counts as not contained.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time until a component has to be refused.
const REFUSAL: Duration = Duration::from_secs(10);
/// What this process may hold more while a case runs: the memory of a guest and some copies of its largest result, for each
/// of those that run at once.
const GROWTH: u64 = 160 << 20;

/// How one case went.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// The number of its row in docs/hostile-corpus.md.
    pub(super) row: u8,
    pub(super) what: &'static str,
    pub(super) attempts: usize,
    pub(super) contained: bool,
    /// How it ended, or what was wrong.
    pub(super) ended: String,
    /// How long the longest attempt went on after its deadline, for those that have to meet it.
    #[serde(rename = "overshoot_ms", serialize_with = "in_ms", skip_serializing_if = "Vec::is_empty")]
    pub(super) overshoots: Vec<Duration>,
    /// The most linear memory and tables that a guest held, in bytes.
    pub(super) peak_memory: usize,
    /// What the process held more at the most, in bytes.
    pub(super) growth: u64,
    /// Files and threads that were there afterwards and not before.
    pub(super) descriptors: usize,
    pub(super) threads: usize,
}

fn in_ms<S: serde::Serializer>(times: &[Duration], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(times.iter().map(|time| time.as_secs_f64() * 1e3))
}

/// What the process held before a case.
struct Before(process::ResourceUsage);

impl Before {
    fn now() -> Self {
        process::forget_peak();
        Self(process::held())
    }

    /// What it cost, and that it was contained unless something is wrong.
    fn finding(&self, row: u8, what: &'static str, attempts: usize, ended: Result<String, String>) -> Finding {
        let now = process::held();
        let growth = process::peak().saturating_sub(self.0.resident);
        let ended = match ended {
            Ok(_) if growth > GROWTH => Err(format!("the process grew by {growth} bytes")),
            ended => ended,
        };
        Finding {
            row,
            what,
            attempts,
            contained: ended.is_ok(),
            ended: ended.unwrap_or_else(|wrong| wrong),
            overshoots: Vec::new(),
            peak_memory: 0,
            growth,
            descriptors: now.descriptors.saturating_sub(self.0.descriptors),
            threads: now.threads.saturating_sub(self.0.threads),
        }
    }
}

/// One attempt: what came of it, and how long whoever waited for it waited.
type Attempt = (CallResult, Duration);

/// Makes the attempts of a case.
///
/// # Errors
/// If the attempts cannot be made at all.
pub(super) async fn call(host: &Arc<Host>, grounds: &HostileEnv, case: &Case) -> Result<Finding> {
    let before = Before::now();
    let attempts = attempt(host, grounds, case).await?;
    let wrong = attempts.iter().find_map(|attempt| wrong(case, attempt));
    let wrong = wrong.or_else(|| grounds.find_escape().map(str::to_owned));
    let ended = wrong.map_or_else(|| attempts.first().map(|(result, _)| ending(result)).ok_or_else(String::new), Err);
    let mut finding = before.finding(case.row, case.what, attempts.len(), ended);
    finding.peak_memory = attempts.iter().map(|(result, _)| result.metadata.peak_memory).max().unwrap_or_default();
    if case.ends == Ends::With(ErrorKind::Deadline) {
        finding.overshoots = attempts.iter().map(|(_, took)| took.saturating_sub(SHORT)).collect();
    }
    Ok(finding)
}

async fn attempt(host: &Arc<Host>, grounds: &HostileEnv, case: &Case) -> Result<Vec<Attempt>> {
    let deadline = if case.ends == Ends::With(ErrorKind::Deadline) { SHORT } else { LONG };
    let usual = Limits::default();
    let limits = Limits { deadline, fuel: case.fuel.unwrap_or(usual.fuel), ..usual };
    let (mut running, mut attempts) = (JoinSet::new(), Vec::new());
    for arguments in case.attempts {
        let call = Call::new(case.tool, grounds.arguments(arguments)?).with_limits(limits);
        let host = Arc::clone(host);
        running.spawn(async move {
            let started = Instant::now();
            let result = host.call(call).await;
            (result, started.elapsed())
        });
        if !case.at_once {
            attempts.push(running.join_next().await.ok_or_else(|| anyhow!("an attempt is gone"))??);
        }
    }
    while let Some(attempt) = running.join_next().await {
        attempts.push(attempt?);
    }
    Ok(attempts)
}

/// What is wrong with how an attempt ended, if anything is.
fn wrong(case: &Case, (result, took): &Attempt) -> Option<String> {
    if HostileEnv::has_leak(result) {
        return Some("it told what nobody may know".to_owned());
    }
    if !case.ends.is_met_by(result) {
        return Some(format!("it ended otherwise than it should: {}", ending(result)));
    }
    (*took > result.metadata.deadline + PATIENCE).then(|| format!("it went on for {took:?}"))
}

fn ending(result: &CallResult) -> String {
    match result.error() {
        Some(error) => error.kind.to_string(),
        None => "it got nothing by it".to_owned(),
    }
}

/// Has a component refused.
///
/// # Errors
/// If the component cannot be made at all.
pub(super) async fn load(host: &Host, refused: &Refused) -> Result<Finding> {
    let load = (refused.load)()?;
    let before = Before::now();
    let started = Instant::now();
    let loaded = host.load(load).await;
    let took = started.elapsed();
    let ended = match loaded {
        Ok(_) => Err("it was loaded".to_owned()),
        Err(error) => {
            let text = format!("{:#}", anyhow::Error::new(error));
            match text.contains(refused.says) {
                true if took < REFUSAL => Ok("not loaded".to_owned()),
                true => Err(format!("it was refused after {took:?}")),
                false => Err(format!("it was not loaded for another reason: {text}")),
            }
        }
    };
    Ok(before.finding(refused.row, refused.what, 1, ended))
}
