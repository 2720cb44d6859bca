//! What a host decides for one tool, or for all: records, remedies, caps.

use std::time::Duration;

use crate::persist::Persist;
use crate::retry::{Fault, Recovery, Remedy};

/// Settings for the calls of a tool. What is `None` is left to the next in line.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// What is kept of its calls.
    pub persist: Option<Persist>,
    /// What happens when a call fails.
    pub recovery: Recovery,
    /// Bytes of a result that the model is shown.
    pub result_bytes: Option<usize>,
    /// After how long a call is marked as overrunning. Advisory: the call is not stopped, and its result is used.
    pub expected_duration: Option<Duration>,
}

impl Policy {
    /// This policy, and where it is silent the other.
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

    /// The remedy for a fault; nothing said: tell the model.
    #[must_use]
    pub fn remedy(&self, fault: Fault) -> &Remedy {
        self.recovery.remedy(fault).unwrap_or(&Remedy::Tell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::Attempts;

    #[test]
    fn k25_the_tool_goes_before_the_agent_and_the_agent_before_the_default() {
        let of = |invalid_arguments, execution| Policy {
            recovery: Recovery { invalid_arguments, execution, ..Recovery::default() },
            ..Policy::default()
        };
        let tool = of(Some(Remedy::Stop), None);
        let agent = of(Some(Remedy::Tell), Some(Remedy::Retry(Attempts::again(1))));
        let both = tool.or(&agent);
        assert!(matches!(both.remedy(Fault::InvalidArguments), Remedy::Stop));
        assert!(matches!(both.remedy(Fault::Deserialization), Remedy::Stop));
        assert!(matches!(both.remedy(Fault::Execution), Remedy::Retry(_)));
        assert!(matches!(Policy::default().remedy(Fault::Execution), Remedy::Tell));
    }
}
