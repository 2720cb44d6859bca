//! Translation of the reasons for which providers end an answer.

use fumehood_core::chat::StopReason;

/// Reasons of answers that are not complete, in lower case.
const REASONS: &[(StopReason, &[&str])] = &[
    (
        StopReason::Length,
        &[
            "length",
            "max_tokens",
            "max_output_tokens",
            "max_completion_tokens",
            "model_length",
            "token_limit",
            "incomplete",
            "model_context_window_exceeded",
            "context_length_exceeded",
        ],
    ),
    (
        StopReason::Filtered,
        &[
            "content_filter",
            "content_filtered",
            "content_policy_violation",
            "moderation",
            "moderated",
            "safety",
            "recitation",
            "blocklist",
            "prohibited_content",
            "spii",
            "language",
            "sensitive",
            "guardrail_intervened",
            "error_toxic",
            "image_safety",
            "image_recitation",
            "image_prohibited_content",
            "image_other",
        ],
    ),
    (StopReason::Refused, &["refusal", "refused"]),
    (StopReason::Paused, &["pause_turn"]),
    (
        StopReason::Failed,
        &[
            "error",
            "failed",
            "failure",
            "network_error",
            "server_error",
            "insufficient_system_resource",
            "abort",
            "aborted",
            "cancelled",
            "canceled",
            "timeout",
            "other",
            "malformed_function_call",
            "malformed_response",
            "unexpected_tool_call",
            "too_many_tool_calls",
            "missing_thought_signature",
        ],
    ),
];

/// Translates a reason, in any case. A reason that is not known is that of a complete answer: servers have names of their own
/// for it, such as `eos`.
pub(super) fn translate_stop(reason: &str) -> StopReason {
    let reason = reason.trim().to_ascii_lowercase().replace(['-', ' '], "_");
    let known = REASONS.iter().find(|(_, reasons)| reasons.contains(&reason.as_str()));
    known.map_or(StopReason::Done, |(stop, _)| *stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_reasons_of_every_provider() {
        for (reasons, expected) in [
            (
                &["stop", "STOP", "end_turn", "tool_calls", "TOOL_CALLS", "eos", "", "stop_sequence"][..],
                StopReason::Done,
            ),
            (&["length", "max_tokens", "MAX_TOKENS", "model_context_window_exceeded"], StopReason::Length),
            (
                &["content_filter", "content-filter", "moderation", "SAFETY", "RECITATION", "IMAGE_SAFETY"],
                StopReason::Filtered,
            ),
            (&["refusal"], StopReason::Refused),
            (&["pause_turn"], StopReason::Paused),
            (&["error", "ERROR", "failed", "MALFORMED_FUNCTION_CALL", "OTHER"], StopReason::Failed),
        ] {
            for reason in reasons {
                assert_eq!(translate_stop(reason), expected, "{reason}");
            }
        }
    }
}
