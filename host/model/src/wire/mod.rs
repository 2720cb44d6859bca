//! Translation between [`fumehood_core::chat`] and the types of the client library.

mod calls;
mod failure;
mod messages;
mod names;
mod options;
mod parameter;
mod refusal;
mod reply;
mod request;
mod stop;
mod tags;
mod tools;

pub(crate) use failure::{AttemptError, Remedy, classify, classify_reported, classify_transport, timeout_error};
pub(crate) use parameter::Adjustments;
pub(crate) use refusal::RefusedTools;
pub(crate) use reply::{Progress, ResponseBuilder, continue_turn, join_turn, truncated_error};
pub(crate) use request::{PreparedRequest, prepare};
pub(crate) use tools::{SentTool, refusal_notices, restore_arguments};
