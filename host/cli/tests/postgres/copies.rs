//! Logs that are copied from a file to a server and back.

use super::gateway::{Gateway, server};

#[test]
fn log_is_copied_from_a_file_and_back() {
    let Some((server, url)) = server() else { return };
    let one = Gateway::new(&url);
    for _ in 0..2 {
        one.succeed(&["call", "calculator__add", r#"{"a":3,"b":5}"#, "--log", "e.db"]);
    }
    one.succeed(&["run", "Add 3 and 5.", "--session", "sums", "--script", "script.jsonl", "--log", "e.db"]);
    let head = one.succeed(&["log", "head", "--log", "e.db"]).stdout;
    std::fs::write(one.path("head"), &head).unwrap();
    let imported = one.succeed(&["--json", "log", "import", "e.db"]).json();
    assert_eq!((&imported[0]["seals_checked"], &imported[0]["row"]), (&true.into(), &imported[0]["copied"]));
    // The same log, with the same key and checkpoints.
    let key = one.path("e.db.key").display().to_string();
    let verified = one.succeed(&["log", "verify", "--writer-key", &key, "--since", "@head"]);
    assert!(verified.stdout.contains("consistent with the checkpoint"), "{verified:?}");
    assert_eq!(one.succeed(&["--json", "sessions", "list"]).json()[0]["session"], "sums");
    // What is new is copied by the next import.
    one.succeed(&["call", "calculator__add", r#"{"a":1,"b":1}"#, "--log", "e.db"]);
    let again = one.succeed(&["--json", "log", "import", "e.db"]).json();
    let before = imported[0]["row"].as_u64().unwrap();
    let now = again[0]["row"].as_u64().unwrap();
    assert!(now > before);
    assert_eq!(again[0]["copied"].as_u64().unwrap(), now - before);
    // Whoever goes on has a chain of its own.
    assert_eq!(one.add(2, 2).code, 0);
    assert_eq!(server.sql("fumehood", "SELECT count(*) FROM fumehood.writers").unwrap(), "2");
    one.succeed(&["log", "verify", "--writer-key", &key]);

    let log = head.split_whitespace().nth(1).unwrap();
    one.succeed(&["log", "export", "--to", "back.db", "--writer", log]);
    let back = one.succeed(&["log", "verify", "--log", "back.db", "--log-key", &key, "--since", "@head"]);
    assert!(back.stdout.contains("consistent with the checkpoint"), "{back:?}");
    let records = |name: &str| one.succeed(&["log", "export", "--log", name]).stdout;
    assert_eq!(records("back.db"), records("e.db"));
    let session = |name: &str| one.succeed(&["--json", "sessions", "show", "sums", "--log", name]).json();
    assert_eq!(session("back.db"), session("e.db"));
    let refused = one.run(&["log", "export", "--to", "back.db"]);
    assert!(refused.code != 0 && refused.stderr.contains("already exists"), "{refused:?}");
}

#[test]
fn log_that_is_not_in_order_is_not_copied() {
    let Some((server, url)) = server() else { return };
    let one = Gateway::new(&url);
    one.succeed(&["call", "calculator__add", r#"{"a":3,"b":5}"#, "--log", "e.db"]);
    let database = rusqlite::Connection::open(one.path("e.db")).unwrap();
    database.execute("UPDATE records SET body = '1' WHERE seq = 2", []).unwrap();
    drop(database);
    let refused = one.run(&["log", "import", "e.db"]);
    assert!(refused.code != 0 && refused.stderr.contains("row 2 was edited"), "{refused:?}");
    assert_eq!(one.add(3, 5).code, 0);
    server.sql("fumehood", "UPDATE fumehood.records SET body = '1' WHERE seq = 2").unwrap();
    let refused = one.run(&["log", "export", "--to", "copy.db"]);
    assert!(refused.code != 0 && refused.stderr.contains("row 2 was edited"), "{refused:?}");
}

#[test]
fn file_takes_no_copies() {
    let Some((_server, url)) = server() else { return };
    let one = Gateway::new(&url);
    one.succeed(&["call", "calculator__add", r#"{"a":3,"b":5}"#, "--log", "e.db"]);
    let refused = one.run(&["log", "import", "e.db", "--log", "other.db"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("set `url` in [storage]"), "{refused:?}");
}
