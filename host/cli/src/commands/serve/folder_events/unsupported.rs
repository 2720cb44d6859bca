//! Systems whose events are not read yet.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

/// Events that never come.
pub(in super::super) struct FolderEvents;

impl FolderEvents {
    pub(in super::super) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in super::super) fn watch(&mut self, _: BTreeSet<PathBuf>) {}

    pub(in super::super) async fn next(&mut self) -> bool {
        false
    }
}
