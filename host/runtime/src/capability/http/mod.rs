//! HTTP requests of a guest: each passes through one door, or is refused there.
//!
//! `egress` is the door: it decides, counts, and hands what may go to `exchange`, which looks up the name once, checks
//! every address, and talks to the one that was checked. Nothing outside this folder opens a connection for a guest.

mod account;
mod body;
mod egress;
mod exchange;
mod head;
mod place;
mod reason;

pub(crate) use account::{Reports, RequestObserver};
pub(crate) use egress::{DirectEgress, Egress, OutboundConfig, RelayEgress, RequestRelay, Sending, context};
pub(crate) use exchange::Transmitted;
