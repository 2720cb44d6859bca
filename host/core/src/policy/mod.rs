//! Decisions about power: grants, approvals and redaction.

pub mod approval;
pub mod permission;
pub mod redact;
