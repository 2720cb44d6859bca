//! Decisions about power: grants, approvals, redaction, policies that decide on calls, and flows of data.

pub mod approval;
pub mod call;
pub mod flow;
pub mod permission;
pub mod redact;
