//! Allowlists: the tools that a scope may call, from skills, channels and the signed envelope of a channel.

mod allowlists;
mod envelope;
mod skill;

pub(crate) use allowlists::EffectiveAllowlist;
pub use allowlists::{Allowlists, Channel, ChannelContext, DefaultAllowlist, SealError};
pub use envelope::{EnvelopeError, EnvelopeKey, EnvelopeKeyError};
pub use skill::{Implementation, Skill};
