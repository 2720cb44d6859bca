//! Keys of gateways and workers, messages that are signed with them, and sessions that such messages begin.

mod frame;
mod keys;
mod replay;
mod session;
mod session_table;

pub(crate) use frame::{Envelope, Frame, FrameError, Role, open, seal};
pub use keys::{KeyError, NodeKey, NodePublicKey};
pub(crate) use session::{Exchange, ExchangeKey, Party, Session, SessionError, Side, session_id};
pub(crate) use session_table::SessionTable;
