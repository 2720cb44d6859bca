//! A long-running tool that counts down and reports its progress.

use std::time::Duration;

use fumehood_guest::{ToolError, clock, context, progress, tool};
use schemars::JsonSchema;
use serde::Serialize;

/// A countdown that came to its end.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Countdown {
    /// The number it started from.
    pub from: u32,
    /// The total of the pauses in milliseconds, at least.
    pub waited_ms: u64,
}

/// Counts down to zero with a pause after each number, and reports each number as progress. Use it to wait, or to see
/// how a long call behaves.
#[tool(title = "Count down", read_only, idempotent, destructive = false, open_world = false)]
pub fn countdown(
    /// The number to start from.
    #[schemars(range(min = 1, max = 1000))]
    from: u32,
    /// The pause after each number, in milliseconds.
    #[default(10)]
    #[schemars(range(min = 0, max = 10_000))]
    step_ms: u32,
) -> Result<Countdown, ToolError> {
    let pause = Duration::from_millis(u64::from(step_ms));
    let planned = pause.saturating_mul(from);
    for number in (1..=from).rev() {
        check_deadline(number, pause)?;
        clock::sleep(pause);
        progress::report(f64::from(from - number + 1) / f64::from(from))
            .message(format!("{} of {from}", from - number + 1))
            .partial(number.to_string())
            .send();
    }
    Ok(Countdown { from, waited_ms: u64::try_from(planned.as_millis()).unwrap_or(u64::MAX) })
}

/// Returns an error if the countdown would exceed the deadline: a call that reaches it is stopped without a message.
fn check_deadline(left: u32, pause: Duration) -> Result<(), ToolError> {
    let needed = pause.saturating_mul(left);
    let remaining = context::remaining();
    if needed < remaining {
        return Ok(());
    }
    Err(ToolError::invalid_arguments(format!(
        "counting down from {left} with pauses of {} ms takes {} ms, but only {} ms are left of this call; use a \
         smaller `from` or `step_ms`",
        pause.as_millis(),
        needed.as_millis(),
        remaining.as_millis()
    )))
}

fumehood_guest::export!(countdown);

#[cfg(test)]
mod tests {
    use fumehood_guest::{Content, FailureKind, testing};

    use super::*;

    #[test]
    fn reports_every_number() {
        let run = testing::Call::new().run(|| countdown(3, 1000));
        assert_eq!(run.returned, Ok(Countdown { from: 3, waited_ms: 3000 }));
        assert_eq!(run.elapsed, Duration::from_secs(3), "the test clock advanced, without a real delay");
        let reported: Vec<_> = run.updates.iter().map(|update| (update.fraction, update.partial.as_slice())).collect();
        let three = [Content::text("3")];
        let two = [Content::text("2")];
        let one = [Content::text("1")];
        assert_eq!(reported, [(Some(1.0 / 3.0), &three[..]), (Some(2.0 / 3.0), &two[..]), (Some(1.0), &one[..])]);
        assert_eq!(run.updates[0].message.as_deref(), Some("1 of 3"));
    }

    #[test]
    fn rejects_a_countdown_beyond_the_deadline() {
        let run = testing::Call::new().remaining(Duration::from_secs(2)).run(|| countdown(1000, 10));
        let error = run.returned.unwrap_err();
        assert_eq!(error.kind(), FailureKind::InvalidArguments);
        assert!(error.message().contains("takes 10000 ms, but only 2000 ms are left"), "{error}");
        assert_eq!(run.updates, []);
    }
}
