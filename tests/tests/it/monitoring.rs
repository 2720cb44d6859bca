//! The alert rules for Prometheus and the dashboard for Grafana.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use fumehood_tests::skip::skip;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the names of metrics in a text, without the suffixes of histograms.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    let names = words.filter(|word| word.starts_with("fumehood_"));
    let suffixes = ["_bucket", "_sum", "_count"];
    let family = |name: &str| suffixes.iter().find_map(|suffix| name.strip_suffix(suffix).map(str::to_owned));
    names.map(|name| family(name).unwrap_or_else(|| name.to_owned())).collect()
}

#[test]
fn alert_rules_and_dashboard_name_metrics_that_exist() {
    let documented = metrics(&std::fs::read_to_string(root().join("docs/telemetry.md")).unwrap());
    for file in ["alerts.yml", "alerts.test.yml", "grafana.json"] {
        let text = std::fs::read_to_string(root().join("release/monitoring").join(file)).unwrap();
        let named = metrics(&text);
        assert!(named.len() > 5, "{file}: {named:?}");
        let unknown: Vec<_> = named.difference(&documented).collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}, which docs/telemetry.md does not");
    }
}

#[test]
fn dashboard_has_a_title_and_a_query_in_each_panel() {
    let text = std::fs::read_to_string(root().join("release/monitoring/grafana.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    for panel in panels {
        assert!(!panel["title"].as_str().unwrap().is_empty(), "{panel}");
        let expressions = panel["targets"].as_array().unwrap().iter().map(|target| target["expr"].as_str().unwrap());
        assert!(
            expressions.clone().count() > 0 && expressions.clone().all(|text| text.contains("fumehood_")),
            "{panel}"
        );
    }
}

#[test]
fn alert_rules_fire_for_a_lost_part() {
    let Some(promtool) = std::env::var_os("FUMEHOOD_PROMTOOL").filter(|file| Path::new(file).is_file()) else {
        return skip("promtool", "FUMEHOOD_PROMTOOL names no promtool; `tests/prometheus/setup` fetches one");
    };
    for arguments in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]] {
        let ran =
            Command::new(&promtool).args(arguments).current_dir(root().join("release/monitoring")).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() && said.contains("SUCCESS"), "{said}");
    }
}
