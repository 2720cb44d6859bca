//! Grants of HTTP requests: rules of the operator, and the decision about each request.
//!
//! A request is checked twice. [`decide`] parses its URL as browsers do (WHATWG URL) and compares the result with the
//! rules; [`HttpGrant::admit`] checks every resolved address of the host before a connection is made.

mod address;
mod grant;
mod parsed_request;
mod path;
mod proxy;
mod rule;
mod target;
#[cfg(test)]
mod tests;

pub(super) use address::NamedNetworks;
pub use address::{NotPublicError, check_public};
pub use ipnet::IpNet;

pub use grant::{HttpGrant, HttpLimits, Permit, Reach, decide};
pub use proxy::ProxyGrant;
pub use rule::HttpRule;
pub use target::{HttpTarget, HttpTargetError, Scheme};
