//! A secret that a tool prints in several spellings: it reaches neither the screen nor the event log.

use std::path::Path;

use super::workbench::Workbench;

const VALUE: &str = "s3cr3t/canary+42";
/// The secret as it is, in base64, and percent-encoded.
const SPELLINGS: [&str; 3] = [VALUE, "czNjcjN0L2NhbmFyeSs0Mg==", "s3cr3t%2Fcanary%2B42"];
const CLEAN: &str = "raw [secret api], base64 [secret api], url [secret api]";

const CONFIGURATION: &str = r#"
[tools.it]
component = "it.wasm"
approval = "off"
http = ["GET https://api.example.com/**"]

[[tools.it.secrets]]
name = "api"
from = { env = "TOKEN_OF_TEST" }
for = "https://api.example.com/**"
header = "Authorization"
"#;

const SCRIPT: &str = r#"
{"calls": [{"name": "it__tell", "arguments": {}}]}
{"text": "It was told.", "expect": "[secret api]"}
"#;

/// Finds one of the spellings in a text.
fn found(bytes: &[u8]) -> Option<&'static str> {
    let is_in = |spelling: &&str| bytes.windows(spelling.len()).any(|window| window == spelling.as_bytes());
    SPELLINGS.into_iter().find(|spelling| is_in(spelling))
}

/// Returns every file below a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn run_without_leak(bench: &Workbench, arguments: &[&str]) -> String {
    let output = bench.command(arguments).env("TOKEN_OF_TEST", VALUE).output().unwrap();
    let all = [output.stdout, output.stderr].concat();
    assert_eq!(found(&all), None, "{arguments:?}: {}", String::from_utf8_lossy(&all));
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&all));
    String::from_utf8(all).unwrap()
}

#[test]
fn a_secret_reaches_neither_the_screen_nor_the_log_of_events() {
    let bench = Workbench::new();
    bench.put("it.wasm", fumehood_tests::contract("tell-secret").unwrap());
    bench.put("fumehood.toml", CONFIGURATION);
    bench.put("script.jsonl", SCRIPT);
    // Without its grant the same program prints the value, so there is something to redact.
    let plain = bench.run(&["call", "it.wasm", "tell", "--no-log"]);
    assert!(SPELLINGS.iter().all(|spelling| plain.stdout.contains(spelling)), "{plain:?}");
    assert!(plain.stderr.contains(VALUE), "log lines and progress: {plain:?}");

    let called = run_without_leak(&bench, &["call", "it", "tell"]);
    assert!(called.matches(CLEAN).count() >= 3, "the log line, the progress and the result: {called}");
    assert!(run_without_leak(&bench, &["call", "--json", "it", "tell"]).contains(CLEAN));
    let log = bench.path("log/events.db");
    std::fs::create_dir(bench.path("log")).unwrap();
    let log = log.to_str().unwrap();
    let ran = run_without_leak(&bench, &["run", "Tell me.", "--script", "script.jsonl", "--log", log]);
    assert!(ran.contains("It was told."), "{ran}");
    run_without_leak(&bench, &["run", "--json", "Tell me.", "--script", "script.jsonl", "--log", log]);
    let exported = run_without_leak(&bench, &["log", "export", "--log", log]);
    assert!(exported.matches(CLEAN).count() >= 2, "{exported}");
    // The event log, and all other files of the command.
    for file in files(bench.path("cache").parent().unwrap()) {
        if !file.ends_with("it.wasm") && file.extension().is_none_or(|extension| extension != "cwasm") {
            assert_eq!(found(&std::fs::read(&file).unwrap()), None, "{}", file.display());
        }
    }
}
