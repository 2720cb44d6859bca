//! The drivers, each played against a script of replies by the smallest loop there can be.

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
