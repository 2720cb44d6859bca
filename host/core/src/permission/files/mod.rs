//! Files: which folders of the host a tool sees, where it sees them, and how much it may add to them.
//!
//! A folder is granted for reading, or for reading and writing. What may be granted at all is decided here over
//! canonical paths ([`check_places`]), and which files in granted folders stay out of reach over their identities
//! ([`ProtectedFiles`]); finding those out, opening the folders and keeping the account of what was
//! written is the runtime's work.

mod account;
mod folder;
mod place;
mod protected;
mod quota;

pub use account::{Account, QuotaExceeded};
pub use folder::{Access, Folder, FolderError, SCRATCH};
pub use place::{Place, PlaceError, check_places};
pub use protected::{FileId, FileRole, FileUse, FolderEntry, ProtectedFile, ProtectedFiles, Protection};
pub use quota::{Quota, QuotaError};
