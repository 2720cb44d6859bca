//! JSON Schema: the gate that checks documents, the schemas of WIT types, and writers of JSON text.

pub mod gate;
pub mod json;
pub mod typed;
