//! Grants of host folders to a tool: their guest paths, access and quotas.
//!
//! A folder is granted for reading, or for reading and writing. [`check_places`] decides over canonical paths whether
//! it may be granted at all, and [`ProtectedFiles`] decides over identities of files which files in granted folders
//! stay inaccessible. The runtime resolves paths and identities, opens the folders, and maintains the [`Account`]s.

mod account;
mod folder;
mod place;
mod protected;
mod quota;

pub use account::{Account, QuotaExceeded};
pub use folder::{Access, Folder, SCRATCH};
pub use place::{Place, PlaceError, check_places};
pub use protected::{FileId, FileRole, FileUse, FolderEntry, ProtectedFile, ProtectedFiles, Protection};
pub use quota::Quota;
