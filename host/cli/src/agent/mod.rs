//! The agent loop at a terminal: put together, watched, asked, interrupted.

pub(crate) mod access;
pub(crate) mod approver;
pub(crate) mod call_policy;
pub(crate) mod call_progress;
pub(crate) mod chat_input;
pub(crate) mod ending;
pub(crate) mod interrupt;
pub(crate) mod model;
pub(crate) mod reply;
pub(crate) mod screen;
pub(crate) mod settings;
pub(crate) mod setup;
pub(crate) mod view;
