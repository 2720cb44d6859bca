//! Grants of powers to tools, and the decisions about their use: one file for each power.
//!
//! The decisions do no I/O. Each power is a small type that the operator configures. Asked about a use, it returns
//! either what the enforcement needs, or a [`Refusal`] that names the attempt and the line of a policy that would allow
//! it. Enforcement is in the runtime, also with one file for each power.

mod clock;
mod command_line;
mod environment;
pub mod files;
mod grant;
mod grant_text;
pub mod http;
mod key_value;
mod secret;
mod seed;
pub mod tcp;

pub use crate::call::{Power, Refusal};
pub use clock::ClockStep;
pub use command_line::CommandLine;
pub use environment::Environment;
pub use grant::{Grant, GrantError};
pub use key_value::{KeyValueQuota, KeyValueUse};
pub use secret::{Injection, Secret, SecretError, SecretValue, Template, inject_query};
pub use seed::Seed;
