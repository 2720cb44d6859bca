//! Where hostile tools may do their worst: folders with something to steal beside them, and servers on loopback.

mod listener;
mod place;
mod server;

pub(crate) use place::{HostileEnv, Powers};
