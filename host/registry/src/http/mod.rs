//! Requests to registries: bounded in size and time, without redirects or proxies that nobody configured.

mod address;
mod body;
mod challenge;
mod config;
mod service;
mod transport;

pub use config::{HttpConfig, HttpLimits, Scheme};
pub use transport::UploadObserver;

pub(crate) use body::{read_bounded, read_error};
pub(crate) use challenge::{Challenge, parse_challenges};
pub(crate) use service::ServiceAccess;
pub(crate) use transport::{Access, Request, Transport, authority};
