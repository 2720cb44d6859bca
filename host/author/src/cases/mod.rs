//! Cases: calls of a component in the real sandbox, with what they must give.
//!
//! A file of cases is TOML. A case names a tool and its arguments, what the component is granted, and everything around
//! it that would change from one day to the next: the time, randomness, what the private store holds, and the answers of
//! servers. Nothing is looked up and nothing outside this machine is reached.
//!
//! ```toml
//! [[case]]
//! name = "converts to euros"
//! tool = "convert"
//! arguments = { amount = 10, from = "USD" }
//! now = 2027-01-15T08:00:00Z
//! seed = 1
//! store = { "rates" = "cached" }
//! grant = { http = ["GET https://api.example.com/**"] }
//!
//! [[case.http]]
//! request = "GET https://api.example.com/rates?from=USD"
//! json = { EUR = 0.9 }
//!
//! [case.expect]
//! json = { amount = 9 }
//! fuel = 51200
//! ```

mod case;
mod comparison;
mod edit;
mod http_mock;
mod http_recorder;
mod runner;

/// The JSON Schema of files of cases.
pub const SCHEMA: &str = include_str!("schema.json");

pub use case::{Case, CaseError, CaseFile, Exchange, Expectation};
pub use comparison::{Comparison, Verdict};
pub use edit::{NewCase, append_case, update_cases};
pub use http_recorder::{RecordedExchange, Recording};
pub use runner::{Environment, Observation, RunError, Runner, grant_program};
