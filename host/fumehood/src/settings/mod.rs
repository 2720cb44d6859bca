//! Settings with the names and the forms of `fumehood.toml`, for programs that read them from elsewhere: the command, and the packages
//! of other languages.
//!
//! ```
//! use std::path::Path;
//!
//! use fumehood::Limits;
//! use fumehood::settings::{LimitsSection, Powers, read_json};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limits: LimitsSection = read_json("limits", r#"{"deadline": "2s", "memory": "64MiB"}"#)?;
//! assert_eq!(limits.over(Limits::default()).memory, 64 << 20);
//!
//! let powers: Powers = read_json("grants", r#"{"http": ["GET https://api.example.com/v1/**"]}"#)?;
//! let grant = powers.grant(Path::new("."), &|source| source.value(Path::new(".")));
//! assert!(grant.is_ok_and(|grant| grant.http().is_some()));
//!
//! let misspelt = read_json::<LimitsSection>("limits", r#"{"deadline": 2}"#);
//! println!("{}", misspelt.err().ok_or("it should be refused")?);
//! # Ok(())
//! # }
//! ```

mod amount;
mod embedding;
mod error;
mod folder;
mod http_limits;
mod http_methods;
mod limits;
mod powers;
mod quick_tools;
mod registry;
mod secret;
mod text;

pub use amount::{Bytes, Count, Time};
pub use embedding::{Calling, EmbeddedHost, HostSettings, IsolationRule, LoadSettings};
pub use error::{SettingsError, read_json};
pub use folder::{WriteFolder, WriteFolderTable};
pub use http_limits::HttpLimitsSection;
pub use limits::LimitsSection;
pub use powers::{PowerFault, Powers};
pub use registry::{RegistrySettings, SignatureRule};
pub use secret::{SecretSection, ValueSource, Values, resolve};
pub use text::{TextFile, TextSource};
