//! Components in OCI registries.

mod private_file;
pub mod reference;
pub mod signature;
