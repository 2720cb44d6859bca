//! Keys of gateways and workers, and messages that are signed with them.

mod frame;
mod keys;

pub use frame::{Envelope, Frame, FrameError, Role, open, seal};
pub use keys::{KeyError, NodeKey, NodePublicKey};
