//! Components in OCI registries: publishing, signatures, verification, and a local store.
//!
//! Part of [`fumehood`](https://docs.rs/fumehood), the crate that services depend on.
//!
//! The road of a component, in both directions:
//!
//! | step | where |
//! |---|---|
//! | name it | [`reference::Reference`] |
//! | make and sign what is published | [`publish::Publication`], [`signature::SigningKey`] |
//! | talk to a registry | [`client::RegistryClient`] |
//! | decide whether it may be used | [`policy::Policy`] |
//! | get, verify and keep it | [`fetch::fetch`], [`store::Store`] |
//! | find it | [`index::Index`], [`index_history::IndexHistory`] |
//! | find a newer version | [`fetch::newer_version`] |
//!
//! A registry is not trusted. Bytes are identified by their digests and authors by their keys; every answer is bounded in
//! size, time and speed, and whatever goes wrong leaves nothing behind.
//!
//! ```
//! use fumehood_registry::reference::{OciReference, Reference};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let reference: OciReference = "oci://ghcr.io/acme/greeter:1.0".parse()?;
//! assert_eq!(reference.name(), "ghcr.io/acme/greeter");
//! assert!("oci://ghcr.io/acme/greeter".parse::<Reference>().is_err());
//! # Ok(())
//! # }
//! ```

pub mod artifact;
pub mod client;
pub mod credentials;
pub mod error;
pub mod fetch;
pub mod http;
pub mod index;
pub mod index_history;
pub mod metadata;
pub mod policy;
mod private_file;
pub mod publish;
pub mod reference;
pub mod signature;
pub mod store;
pub mod version;
