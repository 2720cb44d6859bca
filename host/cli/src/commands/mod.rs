//! The commands, one module for each.

pub(crate) mod approve;
pub(crate) mod build;
pub(crate) mod call;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod embed_docs;
pub(crate) mod index;
pub(crate) mod inspect;
pub(crate) mod key;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod new;
pub(crate) mod publish;
pub(crate) mod revoke;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod selftest;
pub(crate) mod serve;
pub(crate) mod test;
pub(crate) mod trust;
