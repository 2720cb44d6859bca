//! `[limits]`: the limits of one call.

pub(crate) use fumehood::settings::LimitsSection;

/// Maximum memory of a call, in bytes: the size of a 32-bit address space.
pub(crate) const MAX_MEMORY_BYTES: usize = 4 << 30;
