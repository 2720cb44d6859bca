//! Retention of the log by age and by rows, and the texts that it keeps.

use serde_json::Value;

use super::workbench::Workbench;

const SCRIPT: &str = r#"
{"calls": [{"name": "calculator__add", "arguments": {"a": 3, "b": 5}, "id": "sum"}], "text": "Let me see.", "usage": {"input": 10, "output": 4}}
{"text": "It is 8.", "usage": {"input": 20, "output": 5}}
"#;

fn bench(config: &str) -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator").put("script.jsonl", SCRIPT);
    bench.put("fumehood.toml", format!("[log]\npath = \"e.db\"\n{config}"));
    bench
}

fn add(bench: &Workbench) {
    let ran = bench.run(&["run", "Add 3 and 5", "--tool", "calculator.wasm", "--script", "script.jsonl"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It is 8.\n"), "{ran:?}");
}

fn records(bench: &Workbench) -> Vec<Value> {
    let ran = bench.run(&["log", "export"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn only_so_many_rows_are_kept_and_the_rest_still_verifies() {
    let bench = bench("keep_rows = 20\n");
    (0..4).for_each(|_| add(&bench));
    let kept = records(&bench);
    assert_eq!((kept.len(), kept.last().unwrap()["kind"].as_str()), (20, Some("session_finished")));
    let report = bench.run(&["log", "verify", "--json"]);
    assert_eq!(report.code, 0, "{report:?}");
    let report = report.json();
    let gone = report["pruned_up_to"].as_u64().unwrap();
    assert_eq!(kept[0]["seq"].as_u64(), Some(gone + 1));
    assert_eq!((&report["rows"], &report["sealed_up_to"]), (&20.into(), &(gone + 20).into()));
    let told = bench.run(&["log", "verify"]).stdout;
    assert!(told.contains(&format!("retention removed rows up to {gone}")), "{told}");
    // Verification fails if another row is removed.
    let database = rusqlite::Connection::open(bench.path("e.db")).unwrap();
    database.execute("DELETE FROM records WHERE seq = ?1", [i64::try_from(gone + 1).unwrap()]).unwrap();
    drop(database);
    assert_eq!(bench.run(&["log", "verify"]).code, 9);
}

#[test]
fn old_records_are_removed_when_a_session_ends() {
    let bench = bench("keep = \"1h\"\n");
    add(&bench);
    let fresh = records(&bench).len();
    bench.put("fumehood.toml", "[log]\npath = \"e.db\"\nkeep = \"1ms\"\n");
    std::thread::sleep(std::time::Duration::from_millis(50));
    add(&bench);
    assert!(records(&bench).len() <= fresh, "what the first session left is gone");
    assert_eq!(bench.run(&["log", "verify"]).code, 0);
}

#[cfg(unix)]
#[test]
fn the_key_of_the_log_can_be_kept_elsewhere() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = bench("key = { file = \"seal.key\" }\n");
    let key = bench.put("seal.key", "0f".repeat(32));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    add(&bench);
    assert!(!bench.path("e.db.key").exists());
    assert_eq!(bench.run(&["log", "verify"]).code, 0);
    bench.put("seal.key", "0e".repeat(32));
    let ran = bench.run(&["log", "verify"]);
    assert!(ran.code == 9 && ran.stdout.contains("forged, or the key belongs to another log"), "{ran:?}");
}

#[test]
fn each_request_is_recorded_with_size_time_and_tokens() {
    let bench = bench("");
    add(&bench);
    let records = records(&bench);
    let of = |kind: &str| records.iter().filter(|it| it["kind"] == kind).map(|it| &it["body"]).collect::<Vec<_>>();
    let asked = of("model_asked");
    let answered = of("model_answered");
    assert_eq!((asked.len(), answered.len()), (2, 2));
    assert_eq!(asked[0]["model"], "scripted");
    assert!(asked[0]["prompt_bytes"].as_u64().unwrap() >= "Add 3 and 5".len() as u64, "{}", asked[0]);
    assert!(asked[1]["prompt_bytes"].as_u64() > asked[0]["prompt_bytes"].as_u64());
    assert!(answered[0]["duration_ms"].as_f64().is_some_and(|millis| millis >= 0.0), "{}", answered[0]);
    assert_eq!(answered[1]["usage"], serde_json::json!({"input": 20, "output": 5}));
    assert!(asked[0].get("said").is_none() && answered[0].get("text").is_none(), "texts are not kept unless wanted");
    let shown = bench.run(&["log", "show", "sum"]).stdout;
    for words in ["asked      scripted, 1 message, ", "answered   ", "10 tokens in, 4 out", "tools"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

#[test]
fn texts_are_kept_where_that_is_wanted_but_not_those_of_calls() {
    let bench = bench("texts = true\n");
    add(&bench);
    let records = records(&bench);
    let of = |kind: &str| records.iter().filter(|it| it["kind"] == kind).map(|it| &it["body"]).collect::<Vec<_>>();
    let asked = of("model_asked");
    let said = asked[0]["said"]["messages"].as_array().unwrap();
    assert!(said.iter().any(|message| message["text"] == "Add 3 and 5"), "{said:?}");
    let said = asked[1]["said"]["messages"].as_array().unwrap();
    assert!(said.iter().all(|message| message.get("text").is_none() && message["bytes"].is_number()), "{said:?}");
    let texts: Vec<&Value> = of("model_answered").into_iter().map(|body| &body["text"]).collect();
    assert_eq!(texts, ["Let me see.", "It is 8."]);
    let shown = bench.run(&["log", "show", "sum"]).stdout;
    assert!(shown.contains("10 tokens in, 4 out: Let me see."), "{shown}");
}
