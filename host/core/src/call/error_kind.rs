//! Kinds of failures of calls: a closed set that a program can branch on.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of failure of a call.
///
/// ```
/// use fumehood_core::call::error_kind::{ErrorKind, Stage};
///
/// let kind = ErrorKind::Deadline;
/// assert_eq!(kind.as_str(), "deadline");
/// assert_eq!(kind.http_status(), 504);
/// // No guest code ran, so the call can be corrected and repeated.
/// assert_eq!(ErrorKind::InvalidArguments.stage(), Stage::Refused);
///
/// let names: Vec<&str> = ErrorKind::ALL.iter().map(|kind| kind.as_str()).collect();
/// assert!(names.contains(&"trap"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no tool of that name.
    UnknownTool,
    /// The tool exists, but this caller may not use it.
    NotAllowed,
    /// The arguments do not match the tool's schema, or the tool itself refused them.
    InvalidArguments,
    /// A limit that the caller set for the call is zero, or exceeds what the host can provide.
    InvalidLimits,
    /// The actor may not make this call.
    Unauthorized,
    /// A rule denied the call, or a power that it needs was not granted.
    Denied,
    /// The tool changed since it was approved, or was never approved.
    NeedsApproval,
    /// The deadline of the call passed.
    Deadline,
    /// The call used up its instructions.
    Fuel,
    /// The call exceeded its memory limit.
    Memory,
    /// The result exceeds its limit.
    OutputTooLarge,
    /// Another quota was used up: handles, copied bytes, bytes on disk, requests.
    Quota,
    /// The tool crashed.
    Trap,
    /// The tool's result is malformed, or does not match the tool's own schema.
    BadResult,
    /// The tool reported a failure.
    ToolFailed,
    /// The tool, or something that it needs, is temporarily unavailable.
    Unavailable,
    /// A budget of the session was used up.
    BudgetExhausted,
    /// The caller cancelled the call.
    Cancelled,
    /// The machine or process that ran the call was lost. The message says whether the guest had begun.
    Interrupted,
    /// The host itself failed.
    Host,
}

/// The stage that a call had reached when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The call was refused before any guest instruction ran.
    Refused,
    /// The guest ran and was stopped from outside.
    Stopped,
    /// The guest crashed.
    Crashed,
    /// The guest ran to its end, and the outcome is a failure.
    Failed,
    /// The host failed.
    Host,
}

impl ErrorKind {
    /// All kinds.
    pub const ALL: &[Self] = &[
        Self::UnknownTool,
        Self::NotAllowed,
        Self::InvalidArguments,
        Self::InvalidLimits,
        Self::Unauthorized,
        Self::Denied,
        Self::NeedsApproval,
        Self::Deadline,
        Self::Fuel,
        Self::Memory,
        Self::OutputTooLarge,
        Self::Quota,
        Self::Trap,
        Self::BadResult,
        Self::ToolFailed,
        Self::Unavailable,
        Self::BudgetExhausted,
        Self::Cancelled,
        Self::Interrupted,
        Self::Host,
    ];

    /// Returns the name for programs, the same as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownTool => "unknown_tool",
            Self::NotAllowed => "not_allowed",
            Self::InvalidArguments => "invalid_arguments",
            Self::InvalidLimits => "invalid_limits",
            Self::Unauthorized => "unauthorized",
            Self::Denied => "denied",
            Self::NeedsApproval => "needs_approval",
            Self::Deadline => "deadline",
            Self::Fuel => "fuel",
            Self::Memory => "memory",
            Self::OutputTooLarge => "output_too_large",
            Self::Quota => "quota",
            Self::Trap => "trap",
            Self::BadResult => "bad_result",
            Self::ToolFailed => "tool_failed",
            Self::Unavailable => "unavailable",
            Self::BudgetExhausted => "budget_exhausted",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Host => "host",
        }
    }

    /// Returns the status with which an HTTP API may answer such a failure (RFC 9110, section 15).
    ///
    /// The kind itself belongs in the body, because several kinds share a status; [`CallError::retry_after`] is for
    /// `Retry-After`.
    ///
    /// | kind | status |
    /// |---|---|
    /// | `unknown_tool` | 404 Not Found |
    /// | `invalid_arguments` | 422 Unprocessable Content |
    /// | `invalid_limits` | 400 Bad Request |
    /// | `not_allowed`, `unauthorized`, `denied`, `needs_approval` | 403 Forbidden |
    /// | `budget_exhausted`, `quota` | 429 Too Many Requests |
    /// | `deadline`, `fuel` | 504 Gateway Timeout |
    /// | `memory`, `output_too_large`, `trap`, `bad_result`, `tool_failed`, `interrupted` | 502 Bad Gateway |
    /// | `unavailable`, `cancelled` | 503 Service Unavailable |
    /// | `host` | 500 Internal Server Error |
    ///
    /// [`CallError::retry_after`]: crate::call::result::CallError::retry_after
    #[must_use]
    pub fn http_status(self) -> u16 {
        match self {
            Self::UnknownTool => 404,
            Self::InvalidArguments => 422,
            Self::InvalidLimits => 400,
            Self::NotAllowed | Self::Unauthorized | Self::Denied | Self::NeedsApproval => 403,
            Self::BudgetExhausted | Self::Quota => 429,
            Self::Deadline | Self::Fuel => 504,
            Self::Memory
            | Self::OutputTooLarge
            | Self::Trap
            | Self::BadResult
            | Self::ToolFailed
            | Self::Interrupted => 502,
            Self::Unavailable | Self::Cancelled => 503,
            Self::Host => 500,
        }
    }

    /// Returns the stage of a failure of which only the kind is known.
    ///
    /// A tool may itself answer `invalid_arguments`, `denied` or `unavailable`, so the kind does not show whether guest
    /// code ran; the result's metadata does.
    #[must_use]
    pub fn stage(self) -> Stage {
        match self {
            Self::UnknownTool
            | Self::NotAllowed
            | Self::InvalidArguments
            | Self::InvalidLimits
            | Self::Unauthorized
            | Self::Denied
            | Self::NeedsApproval
            | Self::BudgetExhausted => Stage::Refused,
            Self::Deadline
            | Self::Fuel
            | Self::Memory
            | Self::OutputTooLarge
            | Self::Quota
            | Self::Cancelled
            | Self::Interrupted => Stage::Stopped,
            Self::Trap => Stage::Crashed,
            Self::BadResult | Self::ToolFailed | Self::Unavailable => Stage::Failed,
            Self::Host => Stage::Host,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the table in the documentation, so that table and code cannot diverge.
    #[test]
    fn http_status_is_as_documented() {
        fn documented_status(kind: ErrorKind) -> u16 {
            let rows = include_str!("error_kind.rs").lines().filter_map(|line| line.trim().strip_prefix("/// | "));
            let row = rows
                .filter_map(|row| row.split_once(" | "))
                .find(|(kinds, _)| kinds.split(", ").any(|name| name.trim_matches('`') == kind.as_str()));
            row.unwrap().1[..3].parse::<u16>().unwrap()
        }

        for &kind in ErrorKind::ALL {
            assert_eq!(documented_status(kind), kind.http_status(), "{kind}");
        }
    }

    #[test]
    fn json_and_display_agree() {
        for &kind in ErrorKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.to_string());
        }
    }
}
