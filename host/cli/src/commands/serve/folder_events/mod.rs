//! Events of the system about changes in folders.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod system;

pub(super) use system::FolderEvents;
