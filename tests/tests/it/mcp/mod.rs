//! Tools of a host for MCP clients: the protocol by hand where it matters, and rmcp's own client.

// Clippy allows panics in helper functions only under `cfg(test)`.
#[cfg(test)]
mod bad_servers;
#[cfg(test)]
mod clients;
#[cfg(test)]
mod component_resources;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod http;
#[cfg(test)]
mod input_required;
#[cfg(test)]
mod lenient;
#[cfg(test)]
mod library;
#[cfg(test)]
mod names;
#[cfg(test)]
pub(crate) mod raw;
#[cfg(test)]
mod real_lists;
#[cfg(test)]
mod relay;
#[cfg(test)]
pub(crate) mod remote;
#[cfg(test)]
mod sanitizing;
#[cfg(test)]
mod stdio;
