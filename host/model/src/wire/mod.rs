//! Between the vocabulary of the agent loop and that of the client library.

mod calls;
mod failure;
mod frames;
mod messages;
mod names;
mod options;
mod parameter;
mod reply;
mod request;

pub(crate) use failure::{Failure, Remedy, explain, late};
pub(crate) use frames::Frames;
pub(crate) use parameter::Adjustments;
pub(crate) use reply::{Pieces, Writing, cut};
pub(crate) use request::{Prepared, prepare};
