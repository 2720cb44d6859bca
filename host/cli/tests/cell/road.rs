//! The commands of docs/cell.md for a cell, as they stand there, with a NATS server and a PostgreSQL server of this test.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fumehood_tests::postgres::Postgres;
use rustix::process::{Pid, Signal, kill_process_group};

use super::client::call;
use super::harness::{Cell, wait_until};

const HEADING: &str = "## Try it on one machine\n";

/// A shell with what it started, which ends when this is dropped.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        let _gone = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _reaped = self.0.wait();
    }
}

fn replace(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "docs/cell.md has no `{from}`");
    text.replace(from, to)
}

#[test]
fn commands_of_the_page_make_a_cell() {
    let Some(cell) = Cell::start() else { return };
    let Some(postgres) = Postgres::start().unwrap() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/cell.md")).unwrap();
    let section = page.split_once(HEADING).unwrap().1;
    let block = section.split_once("```sh\n").unwrap().1.split("```\n").next().unwrap();
    let (script, request) = block.split_once("curl ").unwrap();
    assert!(
        request.contains("/v1/tools/calculator__add/calls") && request.contains(r#"{"a": 3, "b": 5}"#),
        "{request}"
    );

    // The servers and the port are others; the database is made by its own user, who exists.
    let create = script.lines().next().unwrap();
    assert!(create.starts_with("sudo -u postgres psql ") && create.contains("CREATE DATABASE fumehood OWNER fumehood"));
    postgres.create_database("fumehood").unwrap();
    let script = replace(script, create, "set -eu");
    let script = replace(&script, "postgres://fumehood@127.0.0.1/fumehood", &postgres.url("fumehood"));
    let script = replace(&script, "nats://127.0.0.1:4222", &cell.url());
    // `--listen` takes a free port, which standard error names.
    let script = replace(&script, "serve --cell --no-auth", "serve --cell --no-auth --listen 127.0.0.1:0");

    let folder = cell.path("road");
    std::fs::create_dir_all(folder.join("example-tools/dist")).unwrap();
    std::fs::copy(cell.path("calculator.wasm"), folder.join("example-tools/dist/calculator.wasm")).unwrap();
    std::fs::create_dir(folder.join("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_fumehood"), folder.join("bin/fumehood")).unwrap();
    let mut shell = Command::new("bash");
    for (name, value) in cell.command(&[]).get_envs() {
        shell.env(name, value.unwrap());
    }
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let errors = std::fs::File::create(folder.join("errors")).unwrap();
    shell.args(["-c", &format!("{script}\nwait")]).current_dir(&folder).env("PATH", path).process_group(0);
    let mut shell = Shell(shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().unwrap());
    let said = || std::fs::read_to_string(folder.join("errors")).unwrap();
    // Like `curl --retry`, which asks again while nobody listens, and after a 503.
    wait_until("the call is answered", || {
        assert_eq!(shell.0.try_wait().unwrap(), None, "{}", said());
        let said = said();
        let address = said.split_once(" at http://").and_then(|(_, rest)| rest.split_once('/'));
        address.is_some_and(|(address, _)| {
            call(address, "calculator__add", r#"{"a": 3, "b": 5}"#).body["value"]["result"] == 8
        })
    });
    let recorded = "SELECT count(*) FROM fumehood.records WHERE tool = 'calculator__add'";
    wait_until("the call is recorded", || postgres.sql("fumehood", recorded).unwrap() != "0");
}
