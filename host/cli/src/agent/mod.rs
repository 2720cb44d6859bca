//! The agent loop at a terminal: put together, watched, asked, interrupted.

pub(crate) mod ask;
pub(crate) mod chat_input;
pub(crate) mod chips;
pub(crate) mod ending;
pub(crate) mod interrupt;
pub(crate) mod model;
pub(crate) mod reach;
pub(crate) mod rules;
pub(crate) mod screen;
pub(crate) mod settings;
pub(crate) mod setup;
pub(crate) mod treatment;
pub(crate) mod view;
