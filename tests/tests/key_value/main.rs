//! What a tool keeps between its calls: granted or not at all, apart from what others keep, within its quota, and never a
//! reason for the host to fail.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod broken;
mod keeping;
mod listing;
mod quotas;
mod stage;
