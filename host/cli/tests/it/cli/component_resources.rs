//! Resources and pages of components: their approval, their records, and what `inspect` says of them.

use serde_json::json;

use super::session::Session;
use super::workbench::Workbench;

const CONFIG: &str = "[tools.chart]\ncomponent = \"chart.wasm\"\n";

#[test]
fn pages_are_part_of_what_is_approved_and_their_reads_are_recorded() {
    let bench = Workbench::new();
    bench.example("chart").put("fumehood.toml", CONFIG);
    let approved = bench.run(&["approve", "chart", "--yes", "--full"]);
    assert!(approved.stdout.contains("  resource\n") && approved.stdout.contains("ui://chart/view"), "{approved:?}");
    bench.put("fumehood.toml", format!("{CONFIG}apps = true\napp_origins = [\"https://a.example\"]\n"));
    let check = bench.run(&["approve", "chart", "--check"]);
    assert_eq!(check.code, 3, "{check:?}");
    for words in ["apps = true", "app_origins: \"https://a.example\""] {
        assert!(check.stdout.contains(words), "{words}: {check:?}");
    }
    assert_eq!(bench.run(&["approve", "chart", "--yes"]).code, 0);
    let declared = json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}});
    let mut session = Session::start_with(&bench, &["--log", "events.db"], declared.clone());
    let read = session.request(1, "resources/read", json!({"uri": "ui://chart/view"}));
    assert!(
        read["result"]["contents"][0]["text"].as_str().is_some_and(|text| text.contains("ui/initialize")),
        "{read}"
    );
    assert_eq!(session.leave().2, Some(0));
    let log = bench.run(&["log", "export", "--log", "events.db"]);
    let finished =
        log.stdout.lines().filter(|line| line.contains("chart__resources/read") && line.contains("tool_finished"));
    assert_eq!(finished.count(), 1, "{log:?}");
    bench.put("fumehood.toml", format!("{CONFIG}approval = \"off\"\napps = true\n"));
    let mut isolated = Session::start_with(&bench, &["--no-log"], declared);
    let read = isolated.request(1, "resources/read", json!({"uri": "ui://chart/view"}));
    assert_eq!(read["result"]["contents"][0]["mimeType"], "text/html;profile=mcp-app", "in a worker process: {read}");
    assert_eq!(isolated.leave().2, Some(0));
    bench.put("fumehood.toml", format!("{CONFIG}apps = true\napp_origins = [\"a.example\"]\n"));
    let refused = bench.run(&["config", "check"]);
    assert!(refused.code == 2 && refused.stderr.contains("invalid origin `a.example`"), "{refused:?}");
}

#[test]
fn inspect_shows_resources() {
    let bench = Workbench::new();
    bench.example("chart");
    let shown = bench.run(&["inspect", "chart.wasm"]);
    for words in [
        "Resources (1)",
        "ui://chart/view",
        "is a page that clients show with `apps = true`",
        "for the results of draw",
    ] {
        assert!(shown.stdout.contains(words), "{words}: {shown:?}");
    }
    let report = bench.run(&["inspect", "chart.wasm", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(report["resources"][0]["page"]["tools"], json!(["draw"]), "{report}");
}
