//! HTTP requests of a guest (`wasi:http`), each of which `egress` admits or refuses.
//!
//! `egress` decides and counts, and passes admitted requests to `exchange`, which looks up the name once, checks every
//! address, and connects to one of those that it checked.

mod body;
mod egress;
mod exchange;
mod exchange_error;
mod head;
mod permit;

pub(crate) use egress::{DirectEgress, Egress, RelayEgress, RequestBuffers, RequestRelay, ResponseFuture, context};
pub(crate) use exchange::TransmissionFuture;
