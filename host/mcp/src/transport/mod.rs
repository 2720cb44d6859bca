//! Messages on their way, for clients and servers: lines, and arguments as they were written.

pub(crate) mod in_flight;
mod line_splitter;
pub(crate) mod line_transport;
pub(crate) mod raw_arguments;
