//! The tools that the conformance suite calls as tasks.

use std::time::Duration;

use fumehood_guest::{ToolError, clock, tool};

/// Greets somebody, at once.
#[tool(read_only)]
pub fn greet(
    /// The person to greet.
    name: String,
) -> String {
    format!("Hello, {name}!")
}

/// Takes the time that it is told to take.
#[tool(read_only)]
pub fn slow_compute(
    /// The time, in seconds.
    seconds: u32,
    /// The purpose of the time.
    label: Option<String>,
) -> String {
    clock::sleep(Duration::from_secs(seconds.into()));
    format!("Computed {} for {seconds} s.", label.as_deref().unwrap_or("nothing"))
}

/// Fails after a second.
#[tool]
pub fn failing_job() -> Result<String, ToolError> {
    clock::sleep(Duration::from_secs(1));
    Err(ToolError::failed("This job intentionally fails"))
}

/// Panics.
#[tool]
#[allow(clippy::panic, reason = "this is what the suite wants of it")]
pub fn protocol_error_job() -> String {
    panic!("This job intentionally breaks off");
}

#[cfg(test)]
mod tests {
    use fumehood_guest::testing;

    use super::*;

    #[test]
    fn takes_the_time_that_it_is_told_to_take() {
        let run = testing::Call::new().run(|| slow_compute(3, Some("a test".to_owned())));
        assert_eq!(run.elapsed, Duration::from_secs(3));
        assert_eq!(run.returned, "Computed a test for 3 s.");
    }
}
