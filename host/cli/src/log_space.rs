//! The room that is left on the disk of the event log.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fumehood_platform::limits::{DiskSpace, disk_space};

/// Time for which an answer of the system holds.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum room that is kept for the clients that write little, in bytes.
const MAX_RESERVE_BYTES: u64 = 256 << 20;
/// The same as a part of the disk.
const RESERVE_PART: u64 = 10;

/// The state of the disk of a log, looked at once a second.
pub(crate) struct LogSpace {
    folder: PathBuf,
    last: Mutex<Option<(Instant, bool)>>,
}

impl LogSpace {
    /// Looks at the disk of this file.
    pub(crate) fn of(file: &Path) -> Self {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        Self { folder: folder.unwrap_or(Path::new(".")).to_owned(), last: Mutex::default() }
    }

    /// Returns whether the rest of the disk is kept for the clients that write little.
    pub(crate) fn is_scarce(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, is_scarce)) = last.filter(|(at, _)| at.elapsed() < LOOK_INTERVAL) {
            return is_scarce;
        }
        let is_scarce = disk_space(&self.folder).is_some_and(is_nearly_full);
        *last = Some((Instant::now(), is_scarce));
        is_scarce
    }
}

fn is_nearly_full(space: DiskSpace) -> bool {
    space.free < MAX_RESERVE_BYTES.min(space.size / RESERVE_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_a_small_disk_is_kept_and_little_of_a_large_one() {
        let check =
            |free, size, expected| assert_eq!(is_nearly_full(DiskSpace { free, size }), expected, "{free} of {size}");
        check(4 << 20, 50 << 20, true);
        check(6 << 20, 50 << 20, false);
        check(200 << 20, 1 << 40, true);
        check(300 << 20, 1 << 40, false);
        let folder = tempfile::tempdir().unwrap();
        assert!(disk_space(folder.path()).is_none_or(|space| space.free <= space.size && space.size > 0));
        assert!(!LogSpace::of(Path::new("/nowhere/at/all/e.db")).is_scarce(), "what is not known is not refused");
    }
}
