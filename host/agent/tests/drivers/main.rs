//! Tests of the drivers, each in a minimal loop with scripted replies.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod custom;
mod native;
mod play;
mod react;
