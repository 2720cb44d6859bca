//! Settings of the tool host: the sections of `fumehood.toml`, and the options of the packages for other languages.
//!
//! - [`Config`](file::Config) is the whole file, with one module for each section. The doc comments of its types are the
//!   descriptions of the [JSON Schema](file::schema), so they are written for those who edit the file.
//! - Unknown keys, missing keys and wrong types are found by walking the file along that schema. All faults are reported
//!   at once, each with its position.
//! - [`HostSettings`](embedding::HostSettings) and [`LoadSettings`](embedding::LoadSettings) are the options of the
//!   packages for Python and Node.
//!
//! Whether a grant or a limit is possible is decided by `fumehood-core`. Rules of other crates are checked by the program
//! that reads the file: see [`Check`](fault::Check).
//!
//! ```
//! use std::path::Path;
//!
//! use fumehood_config::file::Config;
//!
//! let text = "[tools.notes]\ncomponent = \"notes.wasm\"\nraed = [\"./docs:/docs\"]\n";
//! let faults = Config::parse(Path::new("fumehood.toml"), text, &|_| Vec::new()).unwrap_err().to_string();
//! assert!(faults.starts_with("fumehood.toml:3:1: unknown key `raed` in [tools.notes]; did you mean `read`?"));
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    reason = "the schema has these texts as they are: [tools] is a section of the file, and an address is one to type"
)]

pub mod agent;
pub mod amount;
pub mod approval;
pub mod arguments;
#[cfg(feature = "cell")]
pub mod cell;
pub mod command;
pub mod embedding;
pub mod fault;
pub mod file;
mod files;
pub mod flows;
pub mod folder;
pub mod guardrail;
pub mod hooks;
pub mod http_limits;
mod http_methods;
pub mod jobs;
pub mod json;
mod keys;
pub mod limits;
pub mod logging;
pub mod mcp;
pub mod model;
pub mod oauth;
pub mod open;
#[cfg(feature = "clap")]
mod option;
pub mod package;
pub mod position;
pub mod powers;
pub mod price;
mod read;
pub mod registry;
pub mod secret;
pub mod skill;
#[cfg(feature = "postgres")]
pub mod storage;
pub mod tcp_limits;
pub mod telemetry;
pub mod tenant;
pub mod text;
pub mod tool;
pub mod wishes;
