//! Outgoing HTTP of the host: requests to models, MCP servers, authorization servers, registries and collectors.
//!
//! Part of [`fumehood`](https://docs.rs/fumehood), the crate that services depend on.
//!
//! [`Transport`] is the only client that the host builds. Every response has the same bounds, whatever its status:
//!
//! - Content codings are refused, so that no response is larger than what crosses the network. Requests ask for `identity`.
//! - A head has at most 100 fields and about 400 KiB.
//! - A body has a maximum size, a time between two pieces, a time in all, and a minimum speed ([`ResponseLimits`]). The body of
//!   a response without success has at most [`MAX_ERROR_BYTES`].
//! - A stream of events has a maximum size of one event and a number of events ([`EventLimits`]).
//! - Redirects are returned as they are, and proxies of the environment are not used.
//! - Requests to hosts that nobody configured reach public addresses only ([`Addresses::Public`]).
//!
//! [`Relay`] holds a library to these bounds that insists on an HTTP client of its own; a [`Translation`] lets it read what
//! servers send in other forms. [`spawn`] runs work on threads that serve nothing else.
//!
//! ```no_run
//! use fumehood_transport::{Request, ResponseLimits, Transport, Url};
//!
//! # async fn read(url: Url) -> Result<(), Box<dyn std::error::Error>> {
//! let transport = Transport::builder().build()?;
//! let response = transport.send(Request::get(url), ResponseLimits::default()).await?;
//! let bytes = response.bytes().await?;
//! # Ok(())
//! # }
//! ```

mod client;
mod error;
mod events;
mod relay;
mod request;
mod response;
mod task;
mod tls;

pub use client::{Addresses, Transport, TransportBuilder};
pub use error::TransportError;
pub use events::{EventLimits, EventPieces, Framing};
pub use relay::{Relay, RelayClient, Translation};
pub use request::{Body, Request};
pub use response::{MAX_ERROR_BYTES, Response, ResponseLimits};
pub use task::{Task, spawn};
pub use tls::Roots;
pub use url::Url;
