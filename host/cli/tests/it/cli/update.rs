//! `fumehood update`: a tag moves only when an operator approves what changed.

use fumehood_tests::contract::ToolDescription;

use super::published::{KEY, Registry, trusting_bench, unwrapped};

#[test]
fn a_moved_tag_changes_nothing_before_it_is_approved() {
    let Some(registry) = Registry::start() else { return };
    let first = registry.publish("1", &[ToolDescription::new("read")], Some(&KEY));
    let bench = trusting_bench();
    assert_eq!(bench.run(&["add", &registry.reference("1"), "--yes"]).code, 0);
    let unchanged = bench.run(&["update", "--dry-run"]);
    assert_eq!((unchanged.code, unchanged.stdout.as_str()), (0, "✓ greeter is approved\n"), "{unchanged:?}");
    assert_eq!(unchanged.stderr, "no tag has moved; there is nothing to update\n");
    let second = registry.publish("1", &[ToolDescription::new("read"), ToolDescription::new("send")], Some(&KEY));
    let lock = std::fs::read_to_string(bench.path("fumehood.lock")).unwrap();
    assert_eq!(bench.run(&["call", "greeter", "read"]).code, 0, "what was approved stays");
    assert_eq!(bench.run(&["call", "greeter", "send"]).code, 3);
    for arguments in [&["update", "--dry-run"][..], &["update", "greeter", "--dry-run"], &["update"]] {
        let shown = bench.run(arguments);
        assert_eq!(shown.code, 3, "{shown:?}");
        for part in ["greeter changed since it was approved", "- │ 3101 bytes", "+ │ send"] {
            assert!(shown.stdout.contains(part), "{part}: {shown:?}");
        }
        for reference in [&first.reference, &second.reference] {
            assert!(unwrapped(&shown.stdout).contains(&reference.to_string()), "{reference}: {shown:?}");
        }
        assert_eq!(std::fs::read_to_string(bench.path("fumehood.lock")).unwrap(), lock);
    }
    assert_eq!(bench.run(&["call", "greeter", "read"]).code, 0);
    assert_eq!(bench.run(&["update", "--yes"]).code, 0);
    assert_eq!(bench.run(&["call", "greeter", "send"]).code, 0);
    assert!(std::fs::read_to_string(bench.path("fumehood.lock")).unwrap().contains(&second.reference.to_string()));
}

#[test]
fn says_what_cannot_be_updated() {
    let Some(registry) = Registry::start() else { return };
    let published = registry.publish("1", &[ToolDescription::new("read")], Some(&KEY));
    let bench = trusting_bench();
    bench.example("calculator");
    let pinned = published.reference.to_string();
    assert_eq!(bench.run(&["add", &pinned, "--yes"]).code, 0);
    assert_eq!(bench.run(&["add", "calculator.wasm", "--yes"]).code, 0);
    for (arguments, part) in [
        (&["update", "greeter"][..], "its reference has a digest"),
        (&["update", "calculator"], "it is a file"),
        (&["update", "nothing"], "has no component `nothing`"),
        (&["--offline", "update"], "leave `--offline` out"),
    ] {
        let refused = bench.run(arguments);
        assert!(refused.code == 2 && refused.stderr.contains(part), "{part}: {refused:?}");
    }
    let nothing = bench.run(&["update"]);
    assert!(nothing.code == 0 && nothing.stderr.contains("has no component with a tag"), "{nothing:?}");
}

#[test]
fn a_tag_that_nobody_pinned_needs_approval() {
    let Some(registry) = Registry::start() else { return };
    registry.publish("1", &[ToolDescription::new("read")], Some(&KEY));
    let bench = trusting_bench();
    let toml = std::fs::read_to_string(bench.path("fumehood.toml")).unwrap();
    bench.put("fumehood.toml", format!("{toml}[tools.greeter]\nreference = \"{}\"\n", registry.reference("1")));
    let refused = bench.run(&["call", "greeter", "read"]);
    assert!(refused.code == 6 && refused.stderr.contains("the lock does not pin"), "{refused:?}");
    assert_eq!(bench.run(&["approve", "--check"]).code, 3);
    // It is in the store now, and nobody approved it.
    assert_eq!(bench.run(&["call", "greeter", "read"]).code, 3);
    assert_eq!(bench.run(&["approve", "greeter", "--yes"]).code, 0);
    assert_eq!(bench.run(&["call", "greeter", "read"]).code, 0);
}
