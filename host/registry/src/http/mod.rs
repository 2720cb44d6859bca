//! Requests to registries: bounded in size and time, without redirects or proxies that nobody configured.

mod address;
mod challenge;
mod config;
mod transport;

pub use config::{HttpConfig, HttpLimits, Scheme};
pub use transport::UploadObserver;

pub(crate) use challenge::{Challenge, parse_challenges};
pub(crate) use transport::{Access, Request, ServiceAccess, Transport, authority, read_bounded, read_error};
