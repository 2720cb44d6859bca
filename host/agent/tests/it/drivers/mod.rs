//! Tests of the drivers, each in a minimal loop with scripted replies.

mod custom;
mod native;
mod play;
mod react;
mod specification;
