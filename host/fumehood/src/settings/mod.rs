//! Settings with the names and the forms of `fumehood.toml`, for programs that read them from elsewhere: the command, and the packages
//! of other languages.
//!
//! ```
//! use std::path::Path;
//!
//! use fumehood::Limits;
//! use fumehood::settings::{LimitsSection, Powers, read_json, read_value};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limits: LimitsSection = read_json("limits", r#"{"deadline": "2s", "memory": "64MiB"}"#)?;
//! assert_eq!(limits.over(Limits::default()).memory, 64 << 20);
//!
//! let powers: Powers = read_json("grants", r#"{"http": ["GET https://api.example.com/v1/**"]}"#)?;
//! let grant = powers.grant(Path::new("."), &|source| read_value(source, Path::new(".")));
//! assert!(grant.is_ok_and(|grant| grant.http().is_some()));
//!
//! let misspelt = read_json::<LimitsSection>("limits", r#"{"deadline": 2}"#);
//! println!("{}", misspelt.err().ok_or("it should be refused")?);
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "agent")]
mod agent;
mod call_records;
mod embedding;
mod error;
mod functions;
mod host_events;
mod plain_json;
mod plain_value;
mod quick_tools;
mod registry;
#[cfg(all(feature = "agent", feature = "mcp"))]
mod servers;
mod values;

#[cfg(feature = "agent")]
pub use agent::{AgentReport, CallReport, EmbeddedAgent, Questions, budget_over};
pub use embedding::{Calling, EmbeddedHost, has_run};
pub use error::SettingsError;
pub use fumehood_config::amount::{Bytes, Count, Time};
pub use fumehood_config::embedding::{
    AgentSettings, CallSettings, HostIsolation, HostSettings, LoadSettings, RegistrySettings, TimeUnit, read_options,
};
pub use fumehood_config::folder::{WriteFolder, WriteFolderTable};
pub use fumehood_config::http_limits::HttpLimitsSection;
pub use fumehood_config::json::{SettingError, read_json};
pub use fumehood_config::limits::LimitsSection;
pub use fumehood_config::mcp::McpServerSection;
pub use fumehood_config::powers::{PowerFault, Powers};
pub use fumehood_config::registry::SignatureRule;
pub use fumehood_config::secret::{SecretSection, ValueSource, Values, resolve};
pub use fumehood_config::tcp_limits::TcpLimitsSection;
pub use fumehood_config::text::{TextFile, TextSource};
pub use fumehood_config::wishes::{AnswerKind, Wish, Wishes, WishesError, answer_variable};
pub use functions::{FunctionCall, FunctionCaller, FunctionCapability, FunctionError};
pub use host_events::HostEvents;
pub use plain_json::{read_plain_json, write_plain_json};
pub use plain_value::{PlainValue, PlainValueError};
pub use registry::signature_rule;
#[cfg(all(feature = "agent", feature = "mcp"))]
pub use servers::{
    AddedServer, JailPlace, RUN_PROGRAM, ServerError, entry_lines, server_jail, server_options, start_timeout,
};
pub use values::read_value;
