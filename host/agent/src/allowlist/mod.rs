//! Which tools a scope may reach: skills, channels, the signed envelope of a channel, and what they make together.

mod envelope;
mod lists;
mod skill;

pub use envelope::{Envelope, EnvelopeError, EnvelopeKey, EnvelopeKeyError};
pub use lists::{Allowed, Allowlists, Default, Effective, SealError};
pub use skill::Skill;
