//! The parser of `fumehood.toml`: it accepts or rejects any text within bounded time, with a position for each error.

use std::time::{Duration, Instant};

/// Maximum time for one input. A fuzzer's inputs are small.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Checks a configuration like `fumehood config check`.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let started = Instant::now();
    let read = fumehood_cli::check_configuration(text);
    assert!(started.elapsed() < MAX_TIME, "{:?}", started.elapsed());
    match read {
        Ok(json) => {
            assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok_and(|json| json.is_object()), "{json}");
            assert_eq!(fumehood_cli::check_configuration(&format!("{text}\n# end\n")), Ok(json));
        }
        Err(faults) => assert!(faults.starts_with("fumehood.toml:"), "{faults}"),
    }
}
