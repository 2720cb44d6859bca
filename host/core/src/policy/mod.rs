//! Decisions about power: grants, approvals, redaction, and policies that decide on calls.

pub mod approval;
pub mod call;
pub mod permission;
pub mod redact;
