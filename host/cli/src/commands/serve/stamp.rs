//! Whether a file is still what it was, without reading it.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What the file system knows of a file. Another file in its place, or a change of what is in it, makes another stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    file: (u64, u64),
    bytes: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of what `path` leads to; `None` if that is nothing.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self {
            file: (found.dev(), found.ino()),
            bytes: found.len(),
            written: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_under_the_same_name_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        assert_eq!(Stamp::of(&path), None);
        std::fs::write(&path, "one").unwrap();
        let first = Stamp::of(&path);
        assert!(first.is_some() && first == Stamp::of(&path));
        std::fs::write(&other, "two").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_ne!(Stamp::of(&path), first);
    }
}
