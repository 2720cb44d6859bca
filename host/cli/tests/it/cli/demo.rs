//! `fumehood demo`: every call in it ends as expected.

use std::time::{Duration, Instant};

use expect_test::expect;
use regex::Regex;

use super::workbench::Workbench;

/// Returns the columns of the table that do not differ between runs: the attempt and its outcome.
fn endings(table: &str) -> String {
    let columns = Regex::new(" {2,}").unwrap();
    let mut endings = String::new();
    let (table, _commands) = table.split_once("\nNext:\n").unwrap();
    for line in table.lines().filter(|line| line.starts_with(' ')) {
        let cells: Vec<&str> = columns.split(line.trim()).collect();
        endings.push_str(&cells.iter().take(2).copied().collect::<Vec<_>>().join(" | "));
        endings.push('\n');
    }
    // The number of records depends on the loop, and is not compared.
    let count = Regex::new(r"\b(row )?\d+( records| was edited)").unwrap();
    count.replace_all(&endings, "${1}[count]$2").into_owned()
}

#[test]
fn every_call_ends_as_it_should() {
    let bench = Workbench::new();
    let started = Instant::now();
    let ran = bench.run(&["demo"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    expect![[r#"
        call | outcome
        Useful tools
        add 3 and 5 | {"result":8}
        evaluate (3 + 5) * 2 | {"result":16}
        divide 1 by 0 | tool_failed: Division by zero
        add "3" and nothing | invalid_arguments: at the top: expected the property "b" (number), …
        count words | {"bytes":42,"characters":42,"lines":1,"reading_seconds":3,"words":8}
        query JSON | {"result":["a","b"]}
        count down with progress | {"from":5,"waited_ms":50}
        greet, without any SDK | Good day, world.
        call an unknown tool | unknown_tool: unknown tool `calculator__launch`
        Hostile tools
        loop for ever | deadline: the tool did not finish within 100 ms and was stopped
        loop before being called | deadline: the tool did not finish within 100 ms and was stopped
        sleep in a host call | deadline: the tool did not finish within 100 ms and was stopped
        take all the memory | memory: the tool needs more than its 64.0 MiB of memory
        return 63 MiB | output_too_large: the result is larger than 1.0 MiB, the maximum
        flood stdout for ever | deadline: the tool did not finish within 100 ms and was stopped
        crash | trap: the tool crashed: it aborted (`unreachable`, which is how a panic …
        read out of bounds | trap: the tool crashed: it used memory out of bounds
        recurse for ever | trap: the tool crashed: its call stack overflowed (the recursion is too …
        Attempts beyond the grants
        read ../canary | denied: it leads out of the folder that was granted
        follow a link to it | denied: it leads out of the folder that was granted
        plant a link to /etc/passwd | denied: a link may only point to a relative path without `..`
        read /proc/self/environ | denied: it leads out of the folder that was granted
        open a pipe | denied: it is a named pipe, but only files and folders can be opened
        remove a read-only file | denied: the folder is granted for reading only
        fill the disk | quota: files: write to /w/full exceeded a limit: it may add at most 1.0 …
        make a million files | quota: files: create /w/aaaabx exceeded a limit: it may add at most 50 …
        read the environment | []
        reach http://0x7f.1 | denied: no rule of this tool allows that host
        reach http://[::ffff:127.0.0.1] | denied: no rule of this tool allows that host
        reach 127.0.0.1 by a granted name | denied: its host is at 127.0.0.1, a loopback address
        reach a cloud's metadata service | denied: no rule of this tool allows that host
        reach a host without a grant | denied: no rule of this tool allows that host
        read a secret that a server echoes | {"status":200,"text":"Bearer [secret api]","length":25}
        redirect the secret elsewhere | {"status":200,"text":"nothing","length":7}
        A scripted model: (3 + 5) * 2
        ask to add "3" and 5 | invalid_arguments: /a: expected a number, given the string "3" (write 3 …
        read that, and add 3 and 5 | {"result":8}
        multiply the 8 by 2 | {"result":16}
        call a tool of another skill | not_allowed: Tool 'memory-bomb__run' is not allowed for skill …
        call a tool that hangs | deadline: the tool did not finish within 100 ms and was stopped
        answer | (3 + 5) * 2 is 16.
        The event log
        verify the log | [count] records in order
        change the 16 to 17 in a copy | row [count] was edited: it does not match its hash
    "#]]
    .assert_eq(&endings(&ran.stdout));
    for word in ["time", "deadline", "fuel", "peak memory", "calls of", "Next:", " selftest\n"] {
        assert!(ran.stdout.contains(word), "{word}");
    }
}

#[test]
fn in_json_every_row_has_the_whole_record() {
    let bench = Workbench::new();
    let ran = bench.run(&["demo", "--json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    let rows = ran.json();
    let rows = rows.as_array().unwrap();
    assert!(rows.len() > 40);
    for row in rows {
        assert_eq!(row["as_expected"], true, "{row}");
        if row.get("call").is_none() {
            assert!(row["what"].is_string() && row["outcome"].is_string(), "{row}");
            continue;
        }
        assert!(row["what"].is_string() && row["call"] == row["result"]["tool"], "{row}");
        assert!(row["result"]["metadata"]["deadline_ms"].is_number(), "{row}");
        let over = row["result"]["metadata"]["duration_ms"].as_f64().unwrap()
            - row["result"]["metadata"]["deadline_ms"].as_f64().unwrap();
        assert!(over < 1000.0, "a deadline is kept: {row}");
    }
}
