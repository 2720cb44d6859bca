//! Decisions on calls: code of the operator or of an embedder that decides on a call before it runs, and on its result.
//!
//! [`Policy`] is the port, and [`Decision`] what it returns. [`CallChecks`] runs rules, the policy on flows and hooks in their
//! order and fails closed. An [`Approver`] answers the questions of policies.

mod approver;
mod checks;
mod decision;
mod observer;
mod policies;
mod policy;
#[cfg(test)]
mod tests;

pub use approver::{Answer, Approver, CallQuestion, DeferringApprover, NOBODY_TO_ASK, ProposedCall, Question};
pub use checks::{CallChecks, Check, CheckDelegate, CheckError, FLOWS, PERSON, Verdict};
pub use decision::{Decision, Outcome, Ruling};
pub use observer::without_partial_results;
pub use policies::Policies;
pub use policy::{Policy, PolicyFn};
