//! Cases that are hooks of an operator: each decides on a call of the honest tool, which it must neither delay nor let
//! pass.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use fumehood::hooks::{ComponentHook, HookFunction};
use fumehood::policy::{Policies, Policy};
use fumehood::{Call, CallResult, ErrorKind, Host, Load, Stack};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::runner::{Baseline, DEADLINE_TOLERANCE, Finding, LONG_DEADLINE, SHORT_DEADLINE};
use crate::host;

/// The world of hooks.
const WIT: &str = include_str!("../../../../../wit/hooks/hook.wit");
/// The name under which a hook is loaded.
const NAME: &str = "judge";
/// Row of docs/hostile-corpus.md.
const ROW: u8 = 79;

/// An attack of a hook, which decides on one call before it runs and withholds the result of another.
struct HookCase {
    what: &'static str,
    /// Text of the core module.
    text: &'static str,
    /// True if only its deadline ends it.
    is_endless: bool,
}

macro_rules! case {
    ($what:literal, $program:literal, $is_endless:literal) => {
        HookCase {
            what: $what,
            text: include_str!(concat!("../../../../../tests/programs/hooks/", $program, ".wat")),
            is_endless: $is_endless,
        }
    };
}

const CASES: &[HookCase] = &[
    case!("never decide on a call, as a hook", "spin", true),
    case!("take all the memory, as a hook", "grow", false),
    case!("decide with arguments that are not JSON, as a hook", "invalid-json", false),
    case!("decide with arguments that the tool does not take, as a hook", "widen", false),
    case!("crash, as a hook", "trap", false),
];

/// Runs every case.
///
/// # Errors
/// If a hook cannot be made or loaded at all.
pub(super) async fn run_cases(host: &Arc<Host>) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for case in CASES {
        findings.push(run_case(host, case).await.with_context(|| format!("the hook of the case `{}`", case.what))?);
    }
    Ok(findings)
}

async fn run_case(host: &Arc<Host>, case: &HookCase) -> Result<Finding> {
    let deadline = if case.is_endless { SHORT_DEADLINE } else { LONG_DEADLINE };
    let limits = ComponentHook::default_limits().deadline(deadline);
    host::load(host, NAME, Load::bytes(NAME, encode(case.text)?).limits(limits)).await?;
    let before = Baseline::measure();
    let mut wrong = None;
    let mut overshoots = Vec::new();
    for function in [HookFunction::Before, HookFunction::After] {
        let started = Instant::now();
        let result = call_hooked(host, function).await?;
        let overshoot = started.elapsed().saturating_sub(deadline);
        wrong = wrong.or_else(|| find_violation(&result, function, overshoot));
        overshoots.push(overshoot);
    }
    let ended = if case.is_endless { ErrorKind::Deadline } else { ErrorKind::Denied };
    let ended = wrong.map_or_else(|| Ok(ended.to_string()), Err);
    let mut finding = before.to_finding(ROW, case.what, overshoots.len(), ended);
    if case.is_endless {
        finding.overshoots = overshoots;
    }
    host.unload(NAME);
    Ok(finding)
}

/// Calls the honest tool while the hook decides with this function.
async fn call_hooked(host: &Arc<Host>, function: HookFunction) -> Result<CallResult> {
    let hook = host.hook(NAME)?.functions([function]);
    let hooks: Policies = [Arc::new(hook) as Arc<dyn Policy>].into_iter().collect();
    let tools = Stack::new().policies(hooks).around([host.as_ref().clone()]);
    Ok(tools.dispatch(Call::new("neighbour__add", r#"{"a": 1, "b": 2}"#)).await)
}

/// Describes how a call was not refused as it should be; `None` if it was.
fn find_violation(result: &CallResult, function: HookFunction, overshoot: Duration) -> Option<String> {
    let is_refused = result.error().is_some_and(|error| error.kind == ErrorKind::Denied) && result.content().is_empty();
    if !is_refused {
        return Some(format!("the call was not refused: {:?}", result.error().map(|error| error.kind)));
    }
    let has_run = result.metadata.fuel_used > 0;
    if has_run != (function == HookFunction::After) {
        return Some(format!("the tool {}", if has_run { "ran" } else { "did not run" }));
    }
    (overshoot > DEADLINE_TOLERANCE).then(|| format!("it ran {overshoot:?} too long"))
}

/// Encodes a core module as a component of the world of hooks.
fn encode(text: &str) -> Result<Vec<u8>> {
    let mut module = wat::parse_str(text)?;
    let mut resolve = Resolve::default();
    let package = resolve.push_str("hook.wit", WIT)?;
    let world = resolve.select_world(&[package], Some("hooks"))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default().module(&module)?.encode()
}
