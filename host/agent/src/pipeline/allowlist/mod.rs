//! Allowlists: the tools that a scope may call, from skills, channels and the signed envelope of a channel.

mod allowlists;
mod envelope;
mod skill;

pub use allowlists::{Allowed, Allowlists, Channel, ChannelContext, DefaultAllowlist, EffectiveAllowlist, SealError};
pub use envelope::{Envelope, EnvelopeError, EnvelopeKey, EnvelopeKeyError};
pub use skill::{Implementation, Skill};
