//! The official conformance suite, against `fumehood serve mcp` and `fumehood mcp`.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::expected::{self, Check};
use super::server_process::{FUMEHOOD, ServerProcess};
use super::tools::{ProgramOutput, folder, node, root, run};

const SUITE: &str = "@modelcontextprotocol/conformance/dist/index.js";
/// The revision with a handshake, and the one without.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// The suite's name for the revision of scenarios that belong to none.
const EXTENSION: &str = "extension";
/// The revisions of client scenarios.
const CLIENTS: [&str; 5] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", EXTENSION];

/// The findings of the suite.
#[derive(Debug, Default)]
struct SuiteFindings {
    passed: usize,
    failed: BTreeSet<Check>,
    scenarios: BTreeSet<String>,
    /// True if warnings count too, as they do in the suite's verdict on a client.
    warnings_fail: bool,
}

impl SuiteFindings {
    /// Adds the results that the suite wrote into a folder: `ROLE-SCENARIO-TIME/checks.json`.
    fn read(&mut self, folder: &Path, scenarios: &[String]) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.join("checks.json").exists() {
                self.read(&path, scenarios);
                continue;
            }
            // The folder of a scenario `auth/…` is nested.
            let name = path.to_string_lossy().replace('/', "-");
            let Some(scenario) = longest_in(&name, scenarios) else { continue };
            let checks: Value = serde_json::from_slice(&std::fs::read(path.join("checks.json")).unwrap()).unwrap();
            self.scenarios.insert(scenario.clone());
            for check in checks.as_array().unwrap() {
                match check["status"].as_str().unwrap() {
                    "SUCCESS" => self.passed += 1,
                    status if status == "FAILURE" || (status == "WARNING" && self.warnings_fail) => {
                        self.failed.insert((scenario.clone(), check["id"].as_str().unwrap().to_owned()));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Checks that the failures are exactly the known ones.
    fn is_as_expected(&self, role: &str, revision: &str, printed: &str) {
        let known = expected::failures(role, revision);
        let whole = |scenario: &String| (scenario.clone(), expected::ANY.to_owned());
        let new: Vec<_> =
            self.failed.difference(&known).filter(|(scenario, _)| !known.contains(&whole(scenario))).collect();
        let fails = |scenario: &String| self.failed.iter().any(|(name, _)| name == scenario);
        let stale: Vec<_> = known
            .difference(&self.failed)
            .filter(|(scenario, check)| !(check == expected::ANY && fails(scenario)))
            .collect();
        assert!(
            new.is_empty() && stale.is_empty(),
            "{role}, {revision}: {} checks passed.\nnew failures: {new:#?}\nno failures any more: {stale:#?}\n{printed}",
            self.passed
        );
    }
}

/// Returns the scenario that a folder is named after.
fn longest_in(folder: &str, scenarios: &[String]) -> Option<String> {
    scenarios
        .iter()
        .filter(|scenario| folder.contains(&scenario.replace('/', "-")))
        .max_by_key(|name| name.len())
        .cloned()
}

/// Returns the names of the scenarios of a role.
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
        let server = ServerProcess::fixture();
        let out = server.folder().join("results");
        let mut command = node(&tools, SUITE);
        command.args(["server", "--url", &server.url, "--suite", "all", "--spec-version", revision, "-o"]).arg(&out);
        let ProgramOutput { stdout, .. } = run(&mut command);
        let mut found = SuiteFindings::default();
        found.read(&out, &names);
        assert!(found.scenarios.len() > 20 && found.passed > 20, "{revision}: {found:?}\n{stdout}");
        found.is_as_expected("server", revision, &stdout);
    }
}

/// The scenarios in which a server asks its client, or has templates and subscriptions: no component can, and a server behind
/// the gateway does.
const ASKING: [&str; 12] = [
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "input-required-result-basic-elicitation",
    "input-required-result-basic-sampling",
    "input-required-result-multi-round",
    "input-required-result-request-state",
    "input-required-result-tampered-state",
    "resources-subscribe",
    "resources-templates-read",
    "resources-unsubscribe",
    "tools-call-elicitation",
    "tools-call-sampling",
];

#[test]
fn our_gateway_conforms_where_a_server_asks() {
    let Some(tools) = folder("node", "the conformance of the gateway") else { return };
    let scenarios = revisions(&tools, "server");
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("fumehood.toml");
    let server = format!("command = ['python3', '{}']", root().join("tests/mcp/asking_server.py").display());
    let options = "prefix = ''\napproval = 'off'\nsampling = true";
    std::fs::write(&file, format!("[mcp.servers.asking]\n{server}\n{options}\n")).unwrap();
    for revision in REVISIONS {
        let out = home.path().join(revision);
        let mut printed = String::new();
        let here = scenarios
            .iter()
            .filter(|(name, revisions)| ASKING.contains(&&**name) && revisions.iter().any(|it| it == revision));
        let names: Vec<String> = here.map(|(name, _)| name.clone()).collect();
        for scenario in &names {
            // A call that a scenario leaves waiting for an answer keeps the program from asking other clients.
            let gateway = ServerProcess::gateway(&file);
            let mut command = node(&tools, SUITE);
            command.args(["server", "--url", &gateway.url, "--scenario", scenario, "--spec-version", revision, "-o"]);
            printed.push_str(&run(command.arg(&out)).stdout);
        }
        let mut found = SuiteFindings::default();
        found.read(&out, &names);
        assert_eq!(found.scenarios, names.into_iter().collect(), "{printed}");
        assert!(found.scenarios.len() > 5, "{revision}: {found:?}\n{printed}");
        found.is_as_expected("gateway", revision, &printed);
    }
}

#[test]
fn our_tasks_conform() {
    let Some(tools) = folder("node", "the conformance of tasks") else { return };
    let scenarios = revisions(&tools, "server");
    let tasks = scenarios.iter().filter(|(_, revisions)| revisions.iter().any(|it| it == EXTENSION));
    let names: Vec<String> = tasks.map(|(name, _)| name.clone()).filter(|name| name.starts_with("tasks-")).collect();
    assert!(names.len() > 5, "{names:?}");
    let server = ServerProcess::fixture();
    let out = server.folder().join("results");
    let mut printed = String::new();
    for scenario in &names {
        let mut command = node(&tools, SUITE);
        command.args(["server", "--url", &server.url, "--scenario", scenario, "-o"]).arg(&out);
        printed.push_str(&run(&mut command).stdout);
    }
    let mut found = SuiteFindings::default();
    found.read(&out, &names);
    assert_eq!(found.scenarios, names.into_iter().collect(), "{printed}");
    assert!(found.passed > 30, "{found:?}\n{printed}");
    found.is_as_expected("server", EXTENSION, &printed);
}

/// Returns the scenarios of a role, each with its revisions.
fn revisions(tools: &Path, role: &str) -> Vec<(String, Vec<String>)> {
    let listed = run(node(tools, SUITE).args(["list", &format!("--{role}")]));
    let scenarios = listed.stdout.lines().filter_map(|line| {
        let (name, revisions) = line.trim().strip_prefix("- ")?.strip_suffix(']')?.split_once(" [")?;
        Some((name.to_owned(), revisions.split(',').map(str::to_owned).collect()))
    });
    scenarios.collect()
}

#[test]
fn our_client_conforms() {
    let Some(tools) = folder("node", "the conformance of the client") else { return };
    let scenarios = revisions(&tools, "client");
    let names: Vec<String> = scenarios.iter().map(|(name, _)| name.clone()).collect();
    assert!(names.len() > 30, "{names:?}");
    let ours = format!("node {} {FUMEHOOD}", root().join("tests/mcp/scenario.mjs").display());
    for revision in CLIENTS {
        let out = tempfile::tempdir().unwrap();
        let mut printed = String::new();
        let mut passed = BTreeSet::new();
        let here = scenarios.iter().filter(|(_, revisions)| revisions.iter().any(|it| it == revision));
        for (scenario, _) in here.clone() {
            let mut command = node(&tools, SUITE);
            command.args(["client", "--command", &ours, "--scenario", scenario, "-o"]).arg(out.path());
            if revision != EXTENSION {
                command.args(["--spec-version", revision]);
            }
            let ran = run(command.current_dir(out.path()));
            printed.push_str(&format!("{}{}", ran.stdout, ran.stderr));
            // The exit code is the suite's own verdict, which includes how our program ended.
            if ran.succeeded {
                passed.insert(scenario.clone());
            }
        }
        let mut found = SuiteFindings { warnings_fail: true, ..SuiteFindings::default() };
        found.read(out.path(), &names);
        assert_eq!(found.scenarios, here.map(|(name, _)| name.clone()).collect(), "{revision}: {printed}");
        found.is_as_expected("client", revision, &printed);
        let known = expected::failures("client", revision);
        let expected = found.scenarios.iter().filter(|name| known.iter().all(|(failing, _)| failing != *name));
        assert_eq!(passed, expected.cloned().collect(), "{revision}: the suite's verdicts\n{printed}");
    }
}
