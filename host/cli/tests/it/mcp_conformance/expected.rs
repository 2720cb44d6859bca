//! Known failures in the conformance suite, each with its reason: `tests/mcp/expected-failures.toml`.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::tools::root;

/// Placeholder for any checks of a scenario that fail.
pub(crate) const ANY: &str = "*";

/// A check of a scenario.
pub(crate) type Check = (String, String);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    failure: Vec<Failure>,
}

/// Checks of one scenario that fail.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    /// The tested role: `server`, `client` or `gateway`.
    role: String,
    /// The revisions of the protocol in which they fail.
    revisions: Vec<String>,
    scenarios: Vec<String>,
    /// The checks; if left out, the one that is named like the scenario; `*` for any, at least one.
    #[serde(default)]
    checks: Vec<String>,
    reason: String,
}

/// Returns the known failing checks of a role in a revision.
pub(crate) fn failures(role: &str, revision: &str) -> BTreeSet<Check> {
    let path = root().join("tests/mcp/expected-failures.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let file: File = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut checks = BTreeSet::new();
    for failure in &file.failure {
        assert!(failure.reason.len() > 20, "{failure:?} has no reason");
        assert!(["server", "client", "gateway"].contains(&failure.role.as_str()), "{failure:?}");
        if failure.role != role || !failure.revisions.iter().any(|known| known == revision) {
            continue;
        }
        for scenario in &failure.scenarios {
            let names = if failure.checks.is_empty() { std::slice::from_ref(scenario) } else { &failure.checks };
            checks.extend(names.iter().map(|check| (scenario.clone(), check.clone())));
        }
    }
    checks
}
