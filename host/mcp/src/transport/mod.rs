//! Messages on their way, for clients and servers: lines, bounds on what a message takes to parse, and tokens.

pub(crate) mod bounds;
mod line_splitter;
pub(crate) mod line_transport;
pub(crate) mod parse_queue;
pub(crate) mod raw_arguments;
mod token;

pub use token::{Token, TokenError};
