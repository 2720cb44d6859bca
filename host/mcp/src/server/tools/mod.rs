//! The methods of tools: `tools/list` from a catalogue, and the results of `tools/call`.

pub(super) mod call_tool_result;
pub(super) mod catalogue;
mod instructions;
mod part_members;

pub(super) use catalogue::Catalogue;
pub use catalogue::NamingScheme;
