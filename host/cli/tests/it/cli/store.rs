//! `fumehood store` and `fumehood audit`: what is kept, what is used, and what is revoked.

use fumehood_tests::contract::ToolDescription;
use serde_json::Value;

use super::published::{KEY, OTHER_KEY, Registry, store_files, trusting_bench};
use super::workbench::Workbench;

#[test]
fn lists_verifies_and_prunes() {
    let Some(registry) = Registry::start() else { return };
    let bench = trusting_bench();
    let empty = bench.run(&["store", "list"]);
    assert!(empty.code == 0 && empty.stderr.contains("the store is empty"), "{empty:?}");
    let used = registry.publish("1", &[ToolDescription::new("read")], Some(&KEY));
    let unused = registry.publish("2", &[ToolDescription::new("send")], Some(&KEY));
    assert_eq!(bench.run(&["add", &registry.reference("1"), "--yes"]).code, 0);
    assert_eq!(bench.run(&["inspect", &registry.reference("2")]).code, 0);
    let listed = bench.run(&["store", "list", "--json"]).json();
    let in_use = |index: usize| (listed[index]["reference"].as_str().unwrap().to_owned(), &listed[index]["in_use"]);
    assert_eq!(in_use(0), (used.reference.to_string(), &true.into()));
    assert_eq!(in_use(1), (unused.reference.to_string(), &false.into()));
    assert_eq!(bench.run(&["store", "list"]).stdout.matches("/acme/greeter:").count(), 2);
    assert_eq!(bench.run(&["store", "verify"]).code, 0);
    let files = store_files(&bench).len();
    let counted = bench.run(&["store", "prune", "--dry-run"]);
    assert!(counted.stdout.contains("would be removed"), "{counted:?}");
    assert_eq!(store_files(&bench).len(), files);
    let pruned = bench.run(&["store", "prune"]);
    assert!(pruned.stderr.contains("locks in other folders were not read"), "{pruned:?}");
    assert!(store_files(&bench).len() < files);
    assert_eq!(bench.run(&["--offline", "call", "greeter", "read"]).code, 0, "what the lock names stays");
    let gone = bench.run(&["--offline", "call", &registry.reference("2"), "send"]);
    assert!(gone.code == 6 && gone.stderr.contains("is not in the store"), "{gone:?}");
    let blob = bench.path("state/fumehood/store/blobs").join(used.component.hex());
    std::fs::write(blob, "changed").unwrap();
    let damaged = bench.run(&["store", "verify"]);
    assert!(damaged.code == 9 && damaged.stdout.contains("was changed"), "{damaged:?}");
}

#[test]
fn a_component_that_is_missing_is_got_again_by_its_digest() {
    let Some(registry) = Registry::start() else { return };
    registry.publish("1", &[ToolDescription::new("read")], Some(&KEY));
    let bench = trusting_bench();
    assert_eq!(bench.run(&["add", &registry.reference("1"), "--yes"]).code, 0);
    registry.publish("1", &[ToolDescription::new("other")], Some(&KEY));
    std::fs::remove_dir_all(bench.path("state/fumehood/store")).unwrap();
    let refused = bench.run(&["--offline", "call", "greeter", "read"]);
    assert!(refused.code == 6 && refused.stderr.contains("is not in the store"), "{refused:?}");
    assert_eq!(bench.run(&["call", "greeter", "read"]).code, 0, "the one that the lock pins");
    assert_eq!(bench.run(&["--offline", "call", "greeter", "read"]).code, 0);
}

fn audit_row(bench: &Workbench, arguments: &[&str], code: i32) -> Value {
    let ran = bench.run(arguments);
    assert_eq!(ran.code, code, "{ran:?}");
    ran.json()[0].clone()
}

#[test]
fn newer_versions_are_named() {
    let Some(registry) = Registry::start() else { return };
    registry.publish("0.1.0", &[ToolDescription::new("read")], Some(&KEY));
    let bench = trusting_bench();
    assert_eq!(bench.run(&["add", &registry.reference("0.1.0"), "--yes"]).code, 0);
    assert!(audit_row(&bench, &["audit", "--json"], 0).get("newer").is_none());
    registry.publish("0.2.0", &[ToolDescription::new("write")], Some(&OTHER_KEY));
    let untrusted = audit_row(&bench, &["audit", "--json"], 0);
    let newer = untrusted["newer"].as_str().unwrap();
    assert!(newer.starts_with(&format!("{}, which cannot be used: ", registry.reference("0.2.0"))), "{newer}");
    registry.publish("0.1.1", &[ToolDescription::new("send")], Some(&KEY));
    let shown = bench.run(&["update", "--dry-run"]);
    let expected = format!("a newer version of `greeter` is {}; to use it", registry.reference("0.1.1"));
    assert!(shown.code == 0 && shown.stderr.contains(&expected), "{shown:?}");
    assert!(shown.stderr.contains("no tag has moved"), "{shown:?}");
}

#[test]
fn an_audit_names_signers_unused_grants_updates_and_revocations() {
    let Some(registry) = Registry::start() else { return };
    let first = registry.publish("1", &[ToolDescription::new("read")], Some(&KEY));
    let bench = trusting_bench();
    assert_eq!(bench.run(&["add", &registry.reference("1"), "--yes"]).code, 0);
    let toml = std::fs::read_to_string(bench.path("fumehood.toml")).unwrap();
    let toml = format!("{toml}http = [\"GET https://api.example.com/**\"]\n");
    bench.put("fumehood.toml", &toml);
    assert_eq!(bench.run(&["approve", "--yes"]).code, 0);
    assert_eq!(bench.run(&["call", "greeter", "read"]).code, 0);
    let good = audit_row(&bench, &["audit", "--json"], 0);
    assert_eq!(good["signer"], KEY.public().id().to_string());
    assert_eq!((&good["calls"], &good["is_approved"]), (&1.into(), &true.into()), "{good}");
    assert!(good["unused_grants"][0].as_str().unwrap().contains("api.example.com"), "{good}");
    assert!(good.get("update").is_none(), "{good}");
    registry.publish("1", &[ToolDescription::new("other")], Some(&KEY));
    let newer = audit_row(&bench, &["audit", "--json"], 0);
    assert!(newer["update"].as_str().unwrap().contains("fumehood update greeter"), "{newer}");
    assert!(audit_row(&bench, &["--offline", "audit", "--json"], 0).get("update").is_none());
    let revoked = format!("revoked = [\"{}\"]\n", first.component);
    bench.put("fumehood.toml", toml.replace("[tools.greeter]", &format!("{revoked}[tools.greeter]")));
    let refused = audit_row(&bench, &["--offline", "audit", "--json"], 3);
    assert!(refused["refused"].as_str().unwrap().contains("is revoked"), "{refused}");
    let shown = bench.run(&["--offline", "audit"]);
    assert!(shown.code == 3 && shown.stdout.contains("greeter is refused"), "{shown:?}");
    let called = bench.run(&["call", "greeter", "read"]);
    assert!(called.code == 3 && called.stderr.contains("is revoked"), "{called:?}");
}
