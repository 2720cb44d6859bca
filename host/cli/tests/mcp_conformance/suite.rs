//! The official conformance suite, against `fumehood serve mcp` and `fumehood mcp`.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::expected::{self, Check};
use crate::served::{FUMEHOOD, Served};
use crate::tools::{Printed, folder, node, run};

const SUITE: &str = "@modelcontextprotocol/conformance/dist/index.js";
/// The revision with a handshake, and the one without.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// What the suite found.
#[derive(Debug, Default)]
struct Found {
    passed: usize,
    failed: BTreeSet<Check>,
    scenarios: BTreeSet<String>,
}

impl Found {
    /// Adds what the suite wrote into a folder: `ROLE-SCENARIO-TIME/checks.json`.
    fn read(&mut self, folder: &Path, scenarios: &[String]) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.join("checks.json").exists() {
                self.read(&path, scenarios);
                continue;
            }
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let Some(scenario) = longest_in(&name, scenarios) else { continue };
            let checks: Value = serde_json::from_slice(&std::fs::read(path.join("checks.json")).unwrap()).unwrap();
            self.scenarios.insert(scenario.clone());
            for check in checks.as_array().unwrap() {
                match check["status"].as_str().unwrap() {
                    "SUCCESS" => self.passed += 1,
                    "FAILURE" => {
                        self.failed.insert((scenario.clone(), check["id"].as_str().unwrap().to_owned()));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Every failure is known, and everything that is known to fail does.
    fn is_as_expected(&self, role: &str, revision: &str, printed: &str) {
        let known = expected::failures(role, revision);
        let new: Vec<_> = self.failed.difference(&known).collect();
        let stale: Vec<_> = known.difference(&self.failed).collect();
        assert!(
            new.is_empty() && stale.is_empty(),
            "{role}, {revision}: {} checks passed.\nnew failures: {new:#?}\nno failures any more: {stale:#?}\n{printed}",
            self.passed
        );
    }
}

/// The scenario that a folder is named after.
fn longest_in(folder: &str, scenarios: &[String]) -> Option<String> {
    let plain = |scenario: &str| scenario.replace('/', "-");
    scenarios.iter().filter(|scenario| folder.contains(&plain(scenario))).max_by_key(|name| name.len()).cloned()
}

/// The names of the scenarios of a role.
fn scenarios(tools: &Path, role: &str) -> Vec<String> {
    let listed = run(node(tools, SUITE).args(["list", &format!("--{role}")]));
    let named = |line: &str| line.trim().strip_prefix("- ").and_then(|rest| rest.split(' ').next()).map(str::to_owned);
    let names: Vec<String> = listed.stdout.lines().filter_map(named).collect();
    assert!(names.len() > 10, "{listed:?}");
    names
}

#[test]
fn our_server_conforms() {
    let Some(tools) = folder("node", "the conformance of the server") else { return };
    let names = scenarios(&tools, "server");
    for revision in REVISIONS {
        let server = Served::fixture();
        let out = server.folder().join("results");
        let mut command = node(&tools, SUITE);
        command.args(["server", "--url", &server.url, "--suite", "all", "--spec-version", revision, "-o"]).arg(&out);
        let Printed { stdout, .. } = run(&mut command);
        let mut found = Found::default();
        found.read(&out, &names);
        assert!(found.scenarios.len() > 20 && found.passed > 20, "{revision}: {found:?}\n{stdout}");
        found.is_as_expected("server", revision, &stdout);
    }
}

#[test]
fn our_client_conforms() {
    let Some(tools) = folder("node", "the conformance of the client") else { return };
    let names = scenarios(&tools, "client");
    for revision in REVISIONS {
        let out = tempfile::tempdir().unwrap();
        let mut printed = String::new();
        for (scenario, arguments) in [
            ("initialize", "mcp list"),
            ("tools_call", r#"mcp call add_numbers '{"a":5,"b":3}' --"#),
            ("sse-retry", "mcp call test_reconnection {} --"),
            ("request-metadata", "mcp list"),
            ("http-standard-headers", "mcp call test_headers {} --"),
            ("http-invalid-tool-headers", r#"mcp call valid_tool '{"region":"us"}' --"#),
            ("json-schema-ref-no-deref", "mcp list"),
        ] {
            let mut command = node(&tools, SUITE);
            let ours = format!("{FUMEHOOD} --no-cache {arguments}");
            command.args(["client", "--command", &ours, "--scenario", scenario, "--spec-version", revision, "-o"]);
            let ran = run(command.arg(out.path()).current_dir(out.path()));
            printed.push_str(&ran.stdout);
        }
        let mut found = Found::default();
        found.read(out.path(), &names);
        assert!(found.passed > 0, "{revision}: {printed}");
        found.is_as_expected("client", revision, &printed);
    }
}
