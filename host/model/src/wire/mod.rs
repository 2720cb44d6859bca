//! Between the vocabulary of the agent loop and that of the client library.

mod calls;
mod failure;
mod frames;
mod names;
mod reply;
mod request;

pub(crate) use failure::explain;
pub(crate) use frames::Frames;
pub(crate) use reply::{Pieces, Writing, cut};
pub(crate) use request::{Prepared, prepare};
