//! Tests of the event log.

mod checkpoint;
mod journal;
mod kill;
mod read;
mod storage_error;
mod suite;
mod verify;

use std::path::PathBuf;

use tempfile::TempDir;

/// Creates a temporary folder, and returns the path of a log in it.
fn temporary_path() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.db");
    (folder, path)
}
