//! Parts of a result that are sent before a tool has returned.
//!
//! They are the beginning of the result, and the parts that the function returns are its end. The host shows them early to
//! callers that observe the call. If the function fails, the call has no result.
//!
//! ```
//! use fumehood_guest::{parts, tool};
//!
//! /// Reads chapters.
//! #[tool]
//! async fn read(chapters: Vec<String>) {
//!     for chapter in chapters {
//!         parts::send(chapter).await;
//!     }
//! }
//!
//! fumehood_guest::export_async!(read);
//! ```

#[cfg(target_arch = "wasm32")]
use crate::async_component as host;
#[cfg(not(target_arch = "wasm32"))]
use crate::testing::host;

use crate::Content;

/// Sends a part of the result to the host.
pub async fn send(part: impl Into<Content>) {
    host::send_part(part.into()).await;
}
