//! A runner of the cases that measures the resources of this process during each.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use fumehood::agent::agent::SystemClock;
use fumehood::agent::code::{CodeMode, CodeProvider, ProgramLimits};
use fumehood::flow::FlowPolicy;
use fumehood::{Call, CallError, CallResult, ErrorKind, Host, Limits, Metadata, Stack, ToolProvider as _};
use serde::Serialize;
use tokio::task::JoinSet;

use super::cases::{Case, Expectation, RUN_CODE};
use super::rejected_components::RejectedComponent;
use crate::hostile_env::HostileEnv;

/// Deadline for cases that would never end, short so that the self-test is.
pub(super) const SHORT_DEADLINE: Duration = Duration::from_millis(100);
/// Deadline for all others, enough on a slow machine that is busy with something else.
pub(super) const LONG_DEADLINE: Duration = Duration::from_secs(10);
/// Maximum overshoot of a deadline, for a busy machine; after more than this the case counts as not contained.
pub(super) const DEADLINE_TOLERANCE: Duration = Duration::from_secs(2);
/// Maximum time until a component is rejected.
const MAX_REJECTION_TIME: Duration = Duration::from_secs(10);
/// Maximum growth of this process during a case: the memory of a guest and some copies of its largest result, for each
/// that runs at once.
const MAX_GROWTH_BYTES: u64 = 160 << 20;

/// The resources that this process holds at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct ResourceUsage {
    /// Resident memory, in bytes.
    pub(super) resident: u64,
    /// Number of open descriptors.
    pub(super) descriptors: usize,
    pub(super) threads: usize,
}

impl ResourceUsage {
    /// Measures the present usage; what the system does not report is zero.
    pub(super) fn now() -> Self {
        Self {
            resident: status_bytes("VmRSS:"),
            descriptors: count_entries("/proc/self/fd"),
            threads: count_entries("/proc/self/task"),
        }
    }
}

/// Resets the peak of [`peak_memory`]. If the system does not allow that, the peak is that of the whole run, which is
/// never less.
pub(super) fn reset_peak_memory() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Returns the peak of resident memory since the last reset, in bytes.
pub(super) fn peak_memory() -> u64 {
    status_bytes("VmHWM:")
}

/// Returns a value of `/proc/self/status`, in bytes.
fn status_bytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let figure = status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix("kB"));
    figure.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or_default() * 1024
}

fn count_entries(folder: impl AsRef<Path>) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

/// The outcome of a case.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// Number of its row in docs/hostile-corpus.md.
    pub(super) row: u8,
    pub(super) what: &'static str,
    pub(super) attempts: usize,
    pub(super) contained: bool,
    /// Its outcome, or the violation.
    pub(super) ended: String,
    /// Time that each attempt went on after its deadline; empty if it did not have to end there.
    #[serde(rename = "overshoot_ms", serialize_with = "in_ms", skip_serializing_if = "Vec::is_empty")]
    pub(super) overshoots: Vec<Duration>,
    /// Peak of the linear memory and tables of a guest, in bytes.
    pub(super) peak_memory: usize,
    /// Maximum growth of this process, in bytes.
    pub(super) growth: u64,
    /// Number of descriptors that were left open.
    pub(super) descriptors: usize,
    /// Number of threads that were left running.
    pub(super) threads: usize,
}

fn in_ms<S: serde::Serializer>(times: &[Duration], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(times.iter().map(|time| time.as_secs_f64() * 1e3))
}

/// The resources of this process before a case.
pub(super) struct Baseline(ResourceUsage);

impl Baseline {
    pub(super) fn measure() -> Self {
        reset_peak_memory();
        Self(ResourceUsage::now())
    }

    /// Measures the growth since the baseline, and returns the finding: contained unless `ended` is an error or the
    /// process grew too much.
    pub(super) fn to_finding(
        &self,
        row: u8,
        what: &'static str,
        attempts: usize,
        ended: Result<String, String>,
    ) -> Finding {
        let now = ResourceUsage::now();
        let growth = peak_memory().saturating_sub(self.0.resident);
        let ended = match ended {
            Ok(_) if growth > MAX_GROWTH_BYTES => Err(format!("the process grew by {growth} bytes")),
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

/// The result of an attempt, and the time until its caller had it.
struct Attempt {
    result: CallResult,
    took: Duration,
}

/// Runs the attempts of a case.
///
/// # Errors
/// If the attempts cannot be made at all.
pub(super) async fn run_case(host: &Arc<Host>, env: &HostileEnv, case: &Case) -> Result<Finding> {
    let before = Baseline::measure();
    let attempts = run_attempts(host, env, case).await?;
    let wrong = attempts.iter().find_map(|attempt| find_violation(case, attempt));
    let wrong = wrong.or_else(|| env.find_escape().map(str::to_owned));
    let ended = wrong
        .map_or_else(|| attempts.first().map(|attempt| describe_outcome(&attempt.result)).ok_or_else(String::new), Err);
    let mut finding = before.to_finding(case.row, case.what, attempts.len(), ended);
    finding.peak_memory = attempts.iter().map(|attempt| attempt.result.metadata.peak_memory).max().unwrap_or_default();
    if case.expected == Expectation::Error(ErrorKind::Deadline) {
        finding.overshoots = attempts.iter().map(|attempt| attempt.took.saturating_sub(SHORT_DEADLINE)).collect();
    }
    Ok(finding)
}

async fn run_attempts(host: &Arc<Host>, env: &HostileEnv, case: &Case) -> Result<Vec<Attempt>> {
    let deadline =
        if case.expected == Expectation::Error(ErrorKind::Deadline) { SHORT_DEADLINE } else { LONG_DEADLINE };
    let default = Limits::default();
    let limits = default.deadline(deadline).fuel(case.fuel.unwrap_or(default.fuel));
    let mut running = JoinSet::new();
    let mut attempts = Vec::new();
    for arguments in case.attempts {
        let call = Call::new(case.tool, env.arguments(arguments)?).limits(limits);
        let host = Arc::clone(host);
        running.spawn(async move {
            let started = Instant::now();
            let result = run_attempt(&host, call, deadline).await;
            Attempt { result, took: started.elapsed() }
        });
        if !case.at_once {
            attempts.push(running.join_next().await.ok_or_else(|| anyhow!("an attempt returned no result"))??);
        }
    }
    while let Some(attempt) = running.join_next().await {
        attempts.push(attempt?);
    }
    Ok(attempts)
}

/// Runs a call of a component, or of a program that has all of them behind a policy for flows.
async fn run_attempt(host: &Arc<Host>, call: Call, deadline: Duration) -> CallResult {
    if call.tool != RUN_CODE {
        return host.call(call).await;
    }
    let id = call.context.id.clone();
    let tool = call.tool.clone();
    let tools = Stack::new().flows(Some(FlowPolicy::new())).around([host.as_ref().clone()]);
    let mode = CodeMode::only().limits(ProgramLimits { wall_time: deadline, ..ProgramLimits::default() });
    match CodeProvider::new(tools, Arc::new(host.javascript()), mode, Arc::new(SystemClock)) {
        Ok(code) => code.dispatch(call).await,
        Err(error) => {
            let outcome = Err(CallError::new(ErrorKind::Host, error.to_string()));
            CallResult { id, tool, outcome, metadata: Metadata::default() }
        }
    }
}

/// Loads the interpreter of programs, so that no case is charged for that.
pub(super) async fn load_interpreter(host: &Arc<Host>) {
    let call = Call::new(RUN_CODE, serde_json::json!({"code": "return 1"}));
    // A failure is that of every case with a program.
    let _loaded = run_attempt(host, call, Duration::from_secs(60)).await;
}

/// Describes how the outcome of an attempt violates the expectation; `None` if it does not.
fn find_violation(case: &Case, attempt: &Attempt) -> Option<String> {
    let Attempt { result, took } = attempt;
    if HostileEnv::has_leak(result) {
        return Some("it returned a secret".to_owned());
    }
    if !case.expected.is_met_by(result) {
        return Some(format!("it did not end as expected: {}", describe_outcome(result)));
    }
    (*took > result.metadata.deadline + DEADLINE_TOLERANCE).then(|| format!("it ran for {took:?}"))
}

fn describe_outcome(result: &CallResult) -> String {
    match result.error() {
        Some(error) => error.kind.to_string(),
        None => "it gained nothing".to_owned(),
    }
}

/// Tries to load a component that must be rejected.
///
/// # Errors
/// If the component cannot be made at all.
pub(super) async fn try_load(host: &Host, rejected: &RejectedComponent) -> Result<Finding> {
    let load = (rejected.load)()?;
    let before = Baseline::measure();
    let started = Instant::now();
    let loaded = host.load(load).await;
    let took = started.elapsed();
    let ended = match loaded {
        Ok(_) => Err("it was loaded".to_owned()),
        Err(error) => {
            let text = format!("{:#}", anyhow::Error::new(error));
            match text.contains(rejected.message) {
                true if took < MAX_REJECTION_TIME => Ok("not loaded".to_owned()),
                true => Err(format!("it was refused after {took:?}")),
                false => Err(format!("it was refused for an unexpected reason: {text}")),
            }
        }
    };
    Ok(before.to_finding(rejected.row, rejected.what, 1, ended))
}
