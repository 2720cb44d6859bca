//! The suite of all databases, on PostgreSQL.

use crate::harness::TestDatabase;
use crate::suite;

macro_rules! run_on_postgres {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let Some(database) = TestDatabase::new() else { return };
            drop(suite::Database::open(&database));
            suite::$name(&database);
        })*
    };
}

run_on_postgres! {
    records_round_trip filters_find_records calls_are_shown_with_their_history ids_of_models_find_calls prefixes_find_calls
    exports_json_lines followers_see_records_of_others repeated_records_are_written_once
    records_are_written_without_waiting anchors_seal_rows checkpoints_are_found_again pruned_logs_still_verify
    sessions_are_saved_with_their_records writers_at_once_lose_nothing
}
