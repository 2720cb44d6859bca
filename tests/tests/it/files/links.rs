//! Links: none leads out of a folder, and none that would can be created.

use std::os::unix::fs::symlink;

use fumehood::ErrorKind;
use serde_json::json;

use super::place::{CANARY, CREATE, Place, WRITE, usage};

#[tokio::test]
async fn links_of_others_lead_nowhere_outside() {
    let place = Place::new().await;
    for folder in ["read", "write"] {
        let make = |name: &str, target: &str| symlink(target, place.path(folder).join(name)).unwrap();
        make("out", "../canary");
        make("out-absolute", place.path("canary").to_str().unwrap());
        make("folder-out", "../outside");
        make("chain-1", "chain-2");
        make("chain-2", "sub/chain-3");
        make("sub/chain-3", "../../canary");
        make("loop-1", "loop-2");
        make("loop-2", "loop-1");
        make("self", "self");
        make("proc", "/proc/self/environ");
        make("cwd", "/proc/self/cwd");
        make("good", "sub/inner.txt");
    }
    let before = place.untouchable();
    let ways = ["out", "out/", "out-absolute", "folder-out/canary", "folder-out", "folder-out/", "chain-1", "chain-2"];
    for path in ways.into_iter().chain(["sub/chain-3", "loop-1", "self", "self/x", "proc", "cwd", "cwd/x"]) {
        for folder in [0, 1] {
            for (tool, arguments) in [
                ("read", json!({"folder": folder, "path": path, "follow": 1})),
                ("read", json!({"folder": folder, "path": path, "follow": 0})),
                ("list", json!({"folder": folder, "path": path, "streams": 1, "names": 5})),
                ("write", json!({"folder": folder, "path": path, "how": CREATE, "offset": 0, "size": 9, "times": 1})),
                ("set-size", json!({"folder": folder, "path": path, "size": 0, "for": WRITE})),
                ("mkdir", json!({"folder": folder, "path": format!("{path}/new")})),
                ("unlink", json!({"folder": folder, "path": format!("{path}/canary")})),
            ] {
                let result = place.call(tool, arguments).await;
                assert!(!result.is_ok(), "{tool} {path:?}: {result:?}");
                assert!(!format!("{result:?}").contains(CANARY));
            }
        }
    }
    assert_eq!(place.works("read", json!({"folder": 0, "path": "good", "follow": 1})).await, "inner");
    assert_eq!(place.code("read", json!({"folder": 0, "path": "good", "follow": 0})).await, "loop");
    assert_eq!(place.code("unlink", json!({"folder": 1, "path": "folder-out/"})).await, "not-directory");
    // Moving such a link does not create one, but its relative target could then be another one.
    for name in ["out", "out-absolute", "sub/chain-3"] {
        let moved = json!({"folder": 1, "path": name, "to": 1, "new": "sub/deeper/moved"});
        assert_eq!(place.code("rename", moved.clone()).await, "not-permitted");
        assert_eq!(place.code("link", moved).await, "not-permitted");
    }
    place.works("unlink", json!({"folder": 1, "path": "folder-out"})).await;
    assert_eq!(place.untouchable(), before);
}

#[tokio::test]
async fn no_link_that_leads_out_is_planted() {
    let place = Place::new().await;
    for target in
        ["/etc/passwd", "/", "..", "../canary", "sub/../../canary", "a/..", "./../x", "sub/..", "../write/file.txt"]
    {
        for path in ["planted", "sub/planted", "sub/deeper/planted"] {
            let result = place.call("symlink", json!({"folder": 1, "target": target, "path": path})).await;
            assert_eq!(result.error().unwrap().kind, ErrorKind::Denied, "{target}");
            assert!(result.metadata.refused[0].because.contains("relative path without"));
        }
    }
    assert_eq!(usage(&place.path("write")), (9, 4));
    place.works("symlink", json!({"folder": 1, "target": "deeper/x..y", "path": "sub/planted"})).await;
}
