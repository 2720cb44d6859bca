//! Files in granted folders: list, read, search, write.

mod failure;
mod grants;
mod listing;
mod reading;
mod searching;
mod writing;

pub use listing::{Entry, Kind, Listed, list};
pub use reading::{Lines, read};
pub use searching::{Found, Match, search};
pub use writing::{Written, write};

fumehood_guest::export!(list, read, search, write);
