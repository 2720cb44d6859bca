//! The guarantees of a listener over each of its protocols: MCP and the HTTP API.

// Clippy allows panics in helper functions only under `cfg(test)`.
#[cfg(test)]
mod admission;
#[cfg(test)]
mod flows;
#[cfg(test)]
mod hostile_programs;
#[cfg(test)]
mod neighbours;
#[cfg(test)]
mod stalled;
#[cfg(test)]
pub(crate) mod test_server;
