//! One file for each command.

pub(crate) mod call;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod inspect;
pub(crate) mod mcp;
pub(crate) mod serve;
