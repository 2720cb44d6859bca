//! The suite of all databases, on SQLite.

use fumehood_storage::event_log::{EventLog, Options, Reader};
use tempfile::TempDir;

use super::temporary_path;
use crate::suite::{self, Database};

struct SqliteFile {
    _folder: TempDir,
    path: std::path::PathBuf,
}

impl SqliteFile {
    fn new() -> Self {
        let (folder, path) = temporary_path();
        EventLog::open(&path, &Options::default()).unwrap().close().unwrap();
        Self { _folder: folder, path }
    }
}

impl Database for SqliteFile {
    fn open(&self) -> EventLog {
        EventLog::open(&self.path, &Options::default()).unwrap()
    }

    fn reader(&self) -> Reader {
        Reader::open(&self.path, &Options::default()).unwrap()
    }
}

macro_rules! run_on_sqlite {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            suite::$name(&SqliteFile::new());
        })*
    };
}

run_on_sqlite! {
    records_round_trip filters_find_records calls_are_shown_with_their_history ids_of_models_find_calls prefixes_find_calls
    exports_json_lines followers_see_records_of_others repeated_records_are_written_once
    records_are_written_without_waiting anchors_seal_rows checkpoints_are_found_again pruned_logs_still_verify
    sessions_are_saved_with_their_records writers_at_once_lose_nothing
}
