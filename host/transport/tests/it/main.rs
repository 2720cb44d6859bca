//! The bounds of the transport, against servers on this machine that do not keep them.

// Clippy allows panics in helper functions only under `cfg(test)`.
#[cfg(test)]
mod bounds;
#[cfg(test)]
mod relay;
#[cfg(test)]
mod server;
