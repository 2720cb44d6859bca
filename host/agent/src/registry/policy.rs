//! Policies for the calls of one tool or of all tools: persistence, remedies, limits.

use std::time::Duration;

use fumehood_core::persistence::Persistence;

use super::retry::{Fault, Recovery, Remedy};

/// Settings for the calls of a tool.
///
/// A setting that is `None` is taken from the next policy in this order: that of the host for the tool, that of the
/// tool, that of the agent, and the default.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The part of its calls that is recorded. Default: [`Persistence::Full`].
    pub persist: Option<Persistence>,
    /// The remedies for failed calls.
    pub recovery: Recovery,
    /// Maximum bytes of a result that the model sees. Default:
    /// [`DEFAULT_RESULT_BYTES`](crate::truncate::DEFAULT_RESULT_BYTES).
    pub result_bytes: Option<usize>,
    /// The duration after which a call is marked as overrunning. Advisory: the call is not stopped, and its result is
    /// used. Default: 10 s.
    pub expected_duration: Option<Duration>,
}

impl Policy {
    /// Returns whether a part of the calls is not recorded.
    pub(crate) fn is_withheld(&self) -> bool {
        self.persist.as_ref().is_some_and(|persist| !persist.is_full())
    }

    /// Returns this policy, with settings that are `None` taken from `other`.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        let Self { persist, recovery, result_bytes, expected_duration } = self;
        let pick = |fault| recovery.remedy(fault).or_else(|| other.recovery.remedy(fault)).cloned();
        let recovery = Recovery {
            invalid_arguments: pick(Fault::InvalidArguments),
            deserialization: pick(Fault::Deserialization),
            execution: pick(Fault::Execution),
        };
        Self {
            persist: persist.or_else(|| other.persist.clone()),
            recovery,
            result_bytes: result_bytes.or(other.result_bytes),
            expected_duration: expected_duration.or(other.expected_duration),
        }
    }

    /// Returns the remedy for a fault. Default: [`Remedy::Tell`].
    #[must_use]
    pub fn remedy(&self, fault: Fault) -> &Remedy {
        self.recovery.remedy(fault).unwrap_or(&Remedy::Tell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::retry::RetryPolicy;

    #[test]
    fn the_tool_goes_before_the_agent_and_the_agent_before_the_default() {
        fn policy(invalid_arguments: Option<Remedy>, execution: Option<Remedy>) -> Policy {
            Policy { recovery: Recovery { invalid_arguments, execution, ..Recovery::default() }, ..Policy::default() }
        }

        let tool = policy(Some(Remedy::Stop), None);
        let agent = policy(Some(Remedy::Tell), Some(Remedy::Retry(RetryPolicy::new(1))));
        let both = tool.or(&agent);
        assert!(matches!(both.remedy(Fault::InvalidArguments), Remedy::Stop));
        assert!(matches!(both.remedy(Fault::Deserialization), Remedy::Stop));
        assert!(matches!(both.remedy(Fault::Execution), Remedy::Retry(_)));
        assert!(matches!(Policy::default().remedy(Fault::Execution), Remedy::Tell));
    }
}
