//! The log of a cell: a file of each gateway, or a PostgreSQL server for all of them.

use std::collections::BTreeMap;
use std::process::Output;
use std::time::Duration;

use fumehood_tests::postgres::Postgres;
use serde_json::Value;

use super::harness::Cell;

/// The place of the log.
pub(crate) enum Log {
    /// A SQLite file of each gateway.
    Files,
    /// A database that all gateways share, with a chain of each.
    Postgres(Postgres),
}

const DATABASE: &str = "fumehood";

impl Log {
    /// Returns the sections of the configuration of gateways.
    pub(crate) fn sections(&self) -> String {
        match self {
            Self::Files => String::new(),
            Self::Postgres(server) => {
                format!("[storage]\nurl = \"{}\"\n[agent]\ndurable = true\n", server.url(DATABASE))
            }
        }
    }
}

impl Cell {
    /// Lets gateways that are started from now on record in PostgreSQL. Changes nothing, after printing `SKIPPED`, if there is
    /// none on this machine.
    pub(crate) fn record_in_postgres(&mut self) {
        let Some(server) = Postgres::start().unwrap() else { return };
        server.create_database(DATABASE).unwrap();
        self.log = Log::Postgres(server);
    }

    /// Returns the options of a gateway that say where it records calls.
    pub(crate) fn log_options(&self, gateway: &str) -> [String; 2] {
        let file = match (&self.log, gateway) {
            (Log::Postgres(_), _) => return ["--log-key".to_owned(), self.log_key(gateway)],
            (Log::Files, "g1") => self.path("log.db"),
            (Log::Files, _) => self.path(&format!("{gateway}.db")),
        };
        ["--log".to_owned(), file.display().to_string()]
    }

    fn log_key(&self, gateway: &str) -> String {
        self.path(&format!("{gateway}.log-key")).display().to_string()
    }

    /// Runs an action on the log of a gateway, which may be that of all.
    fn run_on_log(&self, gateway: &str, action: &[&str]) -> Output {
        let config = self.path(&format!("{gateway}.toml")).display().to_string();
        let options = self.log_options(gateway);
        let mut command = self.command(&["--config", &config, "--json", "log"]);
        let ran = command.args(action).args(options).output().unwrap();
        assert!(ran.status.success(), "{action:?}: {ran:?}");
        ran
    }

    /// Returns the number of calls of a tool that the log of the first gateway says ended in this way.
    pub(crate) fn recorded(&self, tool: &str, status: &str) -> usize {
        self.count_records("tool_finished", tool, status)
    }

    /// Returns the number of results of a tool that the log of the first gateway says came after the end of their calls.
    pub(crate) fn recorded_late(&self, tool: &str) -> usize {
        self.count_records("tool_partial", tool, "late")
    }

    fn count_records(&self, kind: &str, tool: &str, status: &str) -> usize {
        let list = ["list", "--of", "records", "--kind", kind, "--limit", "100000"];
        let listed = self.run_on_log("g1", &[&list[..], &["--tool", tool, "--status", status]].concat());
        String::from_utf8_lossy(&listed.stdout).matches(&format!("\"{kind}\"")).count()
    }

    /// Returns the arguments of all calls of a tool that the log of these gateways has, each with how it ended.
    pub(crate) fn recorded_calls(&self, gateways: &[&str], tool: &str) -> Vec<(Value, String)> {
        let mut calls = Vec::new();
        for gateway in if self.is_shared() { &gateways[..1] } else { gateways } {
            let exported = self.run_on_log(gateway, &["export", "--tool", tool]);
            let mut arguments = BTreeMap::new();
            let mut ends = Vec::new();
            for line in String::from_utf8(exported.stdout).unwrap().lines() {
                let record: Value = serde_json::from_str(line).unwrap();
                let call = record["call"].as_str().unwrap_or_default().to_owned();
                match record["kind"].as_str().unwrap() {
                    "tool_started" => {
                        let earlier = arguments.insert(call, record["body"]["arguments"].clone());
                        assert_eq!(earlier, None, "started twice: {record}");
                    }
                    "tool_finished" => ends.push((call, record["status"].as_str().unwrap().to_owned())),
                    _ => {}
                }
            }
            // A call that ended twice has no arguments the second time.
            calls.extend(ends.into_iter().map(|(call, status)| (arguments.remove(&call).expect("arguments"), status)));
            assert!(arguments.is_empty(), "calls without an end: {arguments:?}");
        }
        calls
    }

    fn is_shared(&self) -> bool {
        matches!(self.log, Log::Postgres(_))
    }

    /// Verifies the log of these gateways.
    pub(crate) fn verify_log(&self, gateways: &[&str]) {
        let is_shared = self.is_shared();
        let keys: Vec<String> = gateways[1..].iter().map(|gateway| self.log_key(gateway)).collect();
        let of_others = keys.iter().flat_map(|key| ["--writer-key", key]);
        let verify: Vec<&str> = ["verify"].into_iter().chain(of_others.filter(|_| is_shared)).collect();
        for gateway in if is_shared { &gateways[..1] } else { gateways } {
            let verified = String::from_utf8(self.run_on_log(gateway, &verify).stdout).unwrap();
            assert!(verified.contains("\"seals_checked\":true"), "{verified}");
        }
    }

    /// Lets the tables of the log grow by a page with every row, so that they need room on the disk at once.
    pub(crate) fn waste_pages(&self) {
        let Log::Postgres(server) = &self.log else { return };
        let partitions = "SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'fumehood.records'::regclass";
        for partition in server.sql(DATABASE, partitions).unwrap().lines() {
            server.sql(DATABASE, &format!("ALTER TABLE {partition} SET (fillfactor = 10)")).unwrap();
        }
    }

    /// Ends the server of the log without warning, as a crash does, and starts it again. Returns false if there is none.
    pub(crate) fn restart_log(&mut self, after: Duration) -> bool {
        let Log::Postgres(server) = &mut self.log else { return false };
        server.crash().unwrap();
        std::thread::sleep(after);
        server.run().unwrap();
        true
    }

    /// Fills the disk of the log, or makes room there.
    pub(crate) fn fill_log_disk(&self, gateways: &[&str], is_full: bool) {
        match &self.log {
            Log::Files => gateways.iter().for_each(|gateway| self.limit_files(gateway, is_full.then_some(1))),
            Log::Postgres(server) => server.fill_disk(is_full).unwrap(),
        }
    }
}
