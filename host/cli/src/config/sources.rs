//! Sources of values and texts, and the secrets that requests get.

pub(crate) use fumehood::settings::{SecretSection, TextSource, ValueSource};
