//! The agent loop at a terminal: setup, display, questions and interruption.

pub(crate) mod access;
pub(crate) mod agent_setup;
pub(crate) mod approver;
pub(crate) mod call_policy;
pub(crate) mod call_progress;
pub(crate) mod chat_input;
pub(crate) mod interrupt;
mod json_approver;
pub(crate) mod model;
mod protocol;
pub(crate) mod reply;
pub(crate) mod run_summary;
pub(crate) mod saved;
pub(crate) mod saved_settings;
pub(crate) mod screen;
pub(crate) mod session;
pub(crate) mod settings;
pub(crate) mod view;
