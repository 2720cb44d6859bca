//! Calls, runs, sessions and what tools keep, as commands show them.

use std::time::Instant;

use serde_json::Value;

use super::gateway::{Gateway, PATIENCE, server};

#[test]
fn calls_of_two_gateways_are_in_one_log() {
    let Some((server, url)) = server() else { return };
    let one = Gateway::new(&url);
    let two = Gateway::new(&url);
    assert_eq!(one.add(3, 5).stdout.trim(), r#"{"result":8}"#);
    assert_eq!(two.add(1, 1).stdout.trim(), r#"{"result":2}"#);
    assert_eq!(one.add(2, 2).stdout.trim(), r#"{"result":4}"#);
    assert_eq!(one.recorded(), ["ok", "ok", "ok"]);
    assert_eq!(two.recorded().len(), 3);
    assert!(!one.path("state/fumehood/events.db").exists(), "nothing is recorded in a file");
    let calls = one.succeed(&["--json", "log", "list"]).json();
    let shown = one.succeed(&["--json", "log", "show", calls[0]["call"].as_str().unwrap()]).json();
    assert!(shown.to_string().contains("calculator__add"), "{shown}");
    let stats = one.succeed(&["--json", "log", "stats"]).json();
    assert_eq!(stats[0]["calls"], 3);
    let exported = one.succeed(&["log", "export"]).stdout;
    assert!(exported.lines().all(|line| serde_json::from_str::<Value>(line).unwrap()["writer"]["log"].is_string()));
    assert_eq!(
        exported.lines().count().to_string(),
        server.sql("fumehood", "SELECT count(*) FROM fumehood.records").unwrap()
    );
}

#[test]
fn log_verify_checks_every_writer() {
    let Some((server, url)) = server() else { return };
    let one = Gateway::new(&url);
    let two = Gateway::new(&url);
    assert_eq!((one.add(3, 5).code, two.add(3, 5).code), (0, 0));
    let alone = one.run(&["--json", "log", "verify"]);
    assert_eq!(alone.code, 10, "the key of the other gateway is not here: {alone:?}");
    assert_eq!(alone.json()["writers"].as_array().unwrap().len(), 2);
    assert_eq!(one.run(&["log", "verify", "--without-key"]).code, 0);
    let both = one.succeed(&["log", "verify", "--writer-key", &two.key()]);
    assert_eq!(both.stdout.matches("in order:").count(), 2, "{both:?}");
    let heads = one.succeed(&["log", "head"]).stdout;
    let joined = heads.lines().last().unwrap();
    assert!(heads.lines().count() == 3 && joined.starts_with("fumehood-log-join-v1 "), "{heads}");
    std::fs::write(one.path("heads"), &heads).unwrap();
    assert_eq!(two.add(1, 2).code, 0);
    let since = one.succeed(&["log", "verify", "--writer-key", &two.key(), "--since", "@heads"]);
    assert_eq!(since.stdout.matches("consistent with the checkpoint").count(), 2, "{since:?}");
    assert!(since.stdout.contains("consistent with the joined head"), "{since:?}");
    // The one line is enough to miss a writer.
    let verify = ["--json", "log", "verify", "--writer-key", &two.key(), "--since", joined];
    assert_eq!(one.succeed(&verify).json()["joined"][0]["continuity"], "proven");
    // The connections of commands that ended may be there for a moment.
    let began = Instant::now();
    while let Err(error) = server.sql("postgres", "CREATE DATABASE copy TEMPLATE fumehood") {
        assert!(began.elapsed() < PATIENCE, "{error}");
    }
    let remove =
        "SET search_path = fumehood; DELETE FROM records WHERE writer = 2; DELETE FROM anchors WHERE writer = 2;
        DELETE FROM writers WHERE number = 2";
    server.sql("copy", remove).unwrap();
    let config = std::fs::read_to_string(one.path("fumehood.toml")).unwrap();
    std::fs::write(one.path("fumehood.toml"), config.replace(&url, &server.url("copy"))).unwrap();
    one.succeed(&["log", "verify"]);
    let missed = one.run(&["log", "verify", "--since", joined]);
    std::fs::write(one.path("fumehood.toml"), config).unwrap();
    assert_eq!(missed.code, 9, "{missed:?}");
    assert!(missed.stdout.contains("2 writers had records up to position"), "{missed:?}");
    let edit = "UPDATE fumehood.records SET body = replace(body, '3', '4') WHERE writer = 2 AND kind = 'tool_started'";
    server.sql("fumehood", edit).unwrap();
    let edited = one.run(&["log", "verify", "--writer-key", &two.key()]);
    assert_eq!(edited.code, 9, "{edited:?}");
    assert!(edited.stdout.contains("was edited: it does not match its hash"), "{edited:?}");
}

#[test]
fn session_that_one_gateway_saved_goes_on_at_another() {
    let Some((_server, url)) = server() else { return };
    let one = Gateway::new(&url);
    let two = Gateway::new(&url);
    let ran = one.succeed(&["run", "Add 3 and 5.", "--session", "sums", "--script", "script.jsonl"]);
    assert_eq!(ran.stdout, "It is 8.\n");
    let listed = two.succeed(&["--json", "sessions", "list"]).json();
    assert_eq!(listed[0]["session"], "sums");
    let ran = two.succeed(&["run", "And again.", "--resume", "sums", "--script", "script.jsonl"]);
    assert_eq!(ran.stdout, "It is 8.\n");
    let shown = one.succeed(&["--json", "sessions", "show", "sums"]).json();
    assert_eq!(shown["transcript"]["runs"].as_array().unwrap().len(), 2);
    one.succeed(&["sessions", "rm", "sums"]);
    assert_eq!(two.succeed(&["--json", "sessions", "list"]).json().as_array().unwrap().len(), 0);
}

#[test]
fn call_that_waits_is_answered_at_another_gateway() {
    let Some((_server, url)) = server() else { return };
    let one = Gateway::new(&url);
    let two = Gateway::new(&url);
    let task = ["run", "Add 3 and 5.", "--session", "sums", "--script", "script.jsonl", "--ask", "calculator__add"];
    let waits = one.run(&task);
    assert_eq!(waits.code, 11, "{waits:?}");
    let listed = two.succeed(&["--json", "approve-call"]).json();
    let id = listed[0]["id"].as_str().unwrap_or_else(|| panic!("{listed}")).to_owned();
    two.succeed(&["approve-call", &id, "--yes"]);
    std::fs::write(one.path("answer.jsonl"), r#"{"text": "It is 8.", "expect": "8"}"#).unwrap();
    let ran = one.succeed(&["run", "--resume", "sums", "--script", "answer.jsonl", "--ask", "calculator__add"]);
    assert_eq!(ran.stdout, "It is 8.\n");
}

#[test]
fn keys_and_values_of_tools_are_shared() {
    let Some((server, url)) = server() else { return };
    let one = Gateway::new(&url);
    let two = Gateway::new(&url);
    one.succeed(&["call", "notes__write", r#"{"title":"milk","text":"two bottles"}"#]);
    let read = two.succeed(&["call", "notes__read", r#"{"title":"milk"}"#]);
    assert!(read.stdout.contains("two bottles"), "{read:?}");
    assert_eq!(server.sql("fumehood", "SELECT name FROM fumehood.owners").unwrap(), "notes");
}

#[test]
fn nothing_runs_that_cannot_be_recorded() {
    let Some((mut server, url)) = server() else { return };
    let one = Gateway::new(&url);
    assert_eq!(one.add(3, 5).code, 0);
    server.shut_down().unwrap();
    let refused = one.add(3, 5);
    assert_eq!((refused.code, refused.stdout.as_str()), (7, ""), "{refused:?}");
    for part in [
        "nothing was run, because it could not be recorded in postgres://fumehood@127.0.0.1",
        "cannot reach the database server",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
    let listed = one.run(&["log", "list"]);
    assert_ne!(listed.code, 0);
    assert!(listed.stderr.contains("cannot reach the database server"), "{listed:?}");
    server.run().unwrap();
    assert_eq!(one.add(3, 5).code, 0);
    assert_eq!(one.recorded(), ["ok", "ok"]);
}

#[test]
fn a_typed_file_stands_above_the_server() {
    let Some((_server, url)) = server() else { return };
    let one = Gateway::new(&url);
    one.succeed(&["call", "calculator__add", r#"{"a":3,"b":5}"#, "--log", "e.db"]);
    let there = one.succeed(&["--json", "log", "list", "--log", "e.db"]).json();
    assert_eq!(there.as_array().unwrap().len(), 1);
}

fn call_with_password(one: &Gateway, password: &str) -> super::gateway::CommandOutput {
    let mut command = one.command(&["call", "calculator__add", r#"{"a":3,"b":5}"#]);
    super::gateway::CommandOutput::from(command.env("PGPASSWORD", password).output().unwrap())
}

#[test]
fn password_comes_from_its_source_and_is_never_shown() {
    let Some((server, url)) = server() else { return };
    server.sql("fumehood", "ALTER ROLE fumehood PASSWORD 'correct horse'").unwrap();
    server.add_file("pg_hba.conf", "host all all 127.0.0.1/32 scram-sha-256\n").unwrap();
    server.reload().unwrap();
    let one = Gateway::new(&url);
    let refused = one.add(3, 5);
    assert_eq!(refused.code, 7, "{refused:?}");
    let config = std::fs::read_to_string(one.path("fumehood.toml")).unwrap();
    let config = config.replace("[agent]", "password = { env = \"PGPASSWORD\" }\n[agent]");
    std::fs::write(one.path("fumehood.toml"), config).unwrap();
    assert_eq!(call_with_password(&one, "correct horse").stdout.trim(), r#"{"result":8}"#);
    let wrong = call_with_password(&one, "battery staple");
    assert!(
        wrong.stderr.contains("the database server refused the connection: password authentication failed"),
        "{wrong:?}"
    );
    assert!(!wrong.stderr.contains("battery"), "{wrong:?}");
}
