//! Decisions about power: grants, approvals, flows of data and redaction.

pub mod approval;
pub mod flow;
pub mod permission;
pub mod redact;
