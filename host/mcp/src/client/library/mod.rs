//! Resources and prompts of a server: what it lists, what of it may be passed on, and how it is asked for it.

mod definition;
mod events;
mod lists;
mod method;
mod remote_library;
mod request;
mod result;
mod subscriptions;
mod uri_template;

pub(crate) use events::LibraryEvents;
pub(crate) use method::LibraryMethod;
pub(crate) use remote_library::LibraryState;
pub use remote_library::{LibraryOptions, RemoteLibrary};
pub(in crate::client) use request::LibraryRequest;
pub(crate) use subscriptions::ResourceSubscription;

/// Maximum number of resources, of templates and of prompts that are taken from one server.
const MAX_LISTED_ITEMS: usize = 1000;
/// Maximum size of the definition of one, in bytes.
const MAX_DEFINITION_BYTES: usize = 16 << 10;
