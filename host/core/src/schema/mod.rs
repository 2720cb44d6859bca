//! JSON Schema: the gate that checks documents, the schemas of WIT types, and readers and writers of JSON text.

pub mod gate;
pub mod json;
pub(crate) mod json_reader;
pub mod typed;
