//! Text that a reader can trust: sanitizing, and the type of text that nobody has checked.

pub mod abbreviation;
pub mod base64;
pub mod json;
pub mod line;
pub mod sanitize;
pub mod untrusted;
