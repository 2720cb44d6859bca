//! The author's side of a tool: a new project, its component, and its tests in the sandbox.
//!
//! - [`scaffold`] writes the files of a new project.
//! - [`build`] makes a component of a project with the toolchain of its language.
//! - [`cases`] calls the component in the sandbox and compares the results with what a file expects.
//! - [`mcp_package`] makes a bundle for MCP clients, and its entry in the MCP registry.

pub mod build;
pub mod cases;
mod contract;
pub mod language;
pub mod mcp_package;
pub mod project;
pub mod scaffold;

pub use language::{Dialect, Language};
pub use project::Project;
