//! Policies for the calls of one tool or of all tools: persistence, retries, limits.

use std::time::Duration;

use fumehood_core::persistence::Persistence;

use super::retry::RetryPolicy;

/// Settings for the calls of a tool.
///
/// A setting that is `None` is taken from the next policy in this order: that of the host for the tool, that of the
/// tool, that of the agent, and the default.
#[derive(Debug, Clone, Default)]
pub struct ToolPolicy {
    /// The part of its calls that is recorded. Default: [`Persistence::Full`].
    pub persist: Option<Persistence>,
    /// The retries of calls that ran and failed. Default: none.
    pub retry: Option<RetryPolicy>,
    /// Maximum bytes of a result that the model sees. Default: 4096.
    pub result_bytes: Option<usize>,
    /// The duration after which a call is marked as overrunning. Advisory: the call is not stopped, and its result is
    /// used. Default: 10 s.
    pub expected_duration: Option<Duration>,
}

impl ToolPolicy {
    /// Returns whether a part of the calls is not recorded.
    pub(crate) fn is_withheld(&self) -> bool {
        self.persist.as_ref().is_some_and(|persist| !persist.is_full())
    }

    /// Returns this policy, with settings that are `None` taken from `other`.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            persist: self.persist.or_else(|| other.persist.clone()),
            retry: self.retry.or(other.retry),
            result_bytes: self.result_bytes.or(other.result_bytes),
            expected_duration: self.expected_duration.or(other.expected_duration),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_goes_before_the_agent_and_the_agent_before_the_default() {
        let policy = |retry| ToolPolicy { retry, ..ToolPolicy::default() };
        let once = Some(RetryPolicy::new(1));
        let never = Some(RetryPolicy::new(0));
        assert_eq!(policy(never).or(&policy(once)).retry, never);
        assert_eq!(policy(None).or(&policy(once)).retry, once);
        assert_eq!(policy(None).or(&ToolPolicy::default()).retry, None);
    }
}
