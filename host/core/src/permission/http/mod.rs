//! HTTP requests: rules that the operator writes, and the decision about each request.
//!
//! A request passes twice. [`decide`] reads its address the way that browsers do and compares what it really means with
//! the rules; [`HttpGrant::admit`] looks at every address that the host's name stands for, before any is connected to.

mod address;
mod grant;
mod parsed_request;
mod path;
mod rule;
mod target;
#[cfg(test)]
mod tests;

pub use address::{NotPublic, is_public};
pub use ipnet::IpNet;

pub use grant::{HttpGrant, HttpGrantError, HttpLimits, Permit, Reach, decide};
pub use rule::{HttpRule, HttpRuleError, HttpRuleProblem};
pub use target::{HttpTarget, HttpTargetError, Scheme};
