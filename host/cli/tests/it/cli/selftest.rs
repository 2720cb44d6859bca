//! `fumehood selftest`: everything is contained, and reported so.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::workbench::Workbench;

#[test]
fn everything_is_contained_next_to_an_honest_tool() {
    let bench = Workbench::new();
    let started = Instant::now();
    let ran = bench.run(&["selftest", "--json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    assert!(started.elapsed() < Duration::from_secs(240), "{:?}", started.elapsed());
    let report = ran.json();
    let modes = report["modes"].as_array().unwrap();
    assert_eq!(
        modes.iter().map(|mode| mode["isolation"].as_str().unwrap()).collect::<Vec<_>>(),
        ["in-process", "process"]
    );
    modes.iter().for_each(check);
}

fn check(report: &Value) {
    let cases = report["cases"].as_array().unwrap();
    assert!(cases.len() > 70);
    for case in cases {
        assert_eq!(case["contained"], true, "{case}");
        let is_timed = case["ended"] == "deadline";
        let overshoots = case["overshoot_ms"].as_array().map_or(0, Vec::len) as u64;
        assert_eq!(overshoots, if is_timed { case["attempts"].as_u64().unwrap() } else { 0 }, "{case}");
    }
    let summary = &report["summary"];
    assert_eq!(summary["contained"], summary["cases"], "{summary}");
    assert_eq!(summary["honest_wrong"], 0, "{summary}");
    assert!(summary["honest_calls"].as_u64().unwrap() > 100, "{summary}");
    assert!(summary["ended_in_ms"].as_f64().unwrap() < 2000.0, "{summary}");
    assert_eq!(summary["wrong"].as_array().map(Vec::len), Some(0), "{summary}");
}

#[test]
fn the_report_for_people_is_a_table() {
    let bench = Workbench::new();
    let ran = bench.run(&["selftest", "--isolation", "process", "--plot", "plot.html"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    for part in ["Isolation: process", "outcome", "fill the disk", "late by", "A harmless tool", "the host shut down"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("NOT contained"), "{}", ran.stdout);
    let page = std::fs::read_to_string(bench.path("plot.html")).unwrap();
    for part in ["<svg", "Outcomes (process)", "Time after the deadline", "during the attacks"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}
