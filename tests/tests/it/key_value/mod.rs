//! Key-value stores of tools: separate for each component, within a quota, absent without a grant, and never a reason
//! for the host to fail.

mod broken;
mod keeping;
mod listing;
mod quotas;
mod stage;
mod suite;
