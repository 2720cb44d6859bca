//! What a tool may do beyond computing, and why it may not: one file for each power.
//!
//! Everything here is a decision without I/O. Each power is a small type that the operator fills in; asked about one
//! use, it answers with what is needed to go on, or with a [`Refusal`] that names what was tried and the line of a
//! policy that would allow it. Enforcement is in the runtime, one file for each power there too.

mod arguments;
mod clock;
mod environment;
pub mod files;
mod grant;
pub mod http;
mod key_value;
mod lines;
mod quote;
mod random;
mod refusal;
mod secret;
mod summary;

pub use arguments::{CommandLine, CommandLineError};
pub use clock::{ClockStep, ClockStepError};
pub use environment::{Environment, EnvironmentError};
pub use grant::Grant;
pub use key_value::{KeyValueQuota, KeyValueQuotaError, KeyValueUse};
pub use random::{Seed, SeedError};
pub use refusal::{Power, Refusal};
pub use secret::{Injection, Secret, SecretError, SecretGrantError, SecretValue, Template, inject_query};
