//! Paths: none leads out of a folder.

use std::path::Path;

use fumehood::ErrorKind;
use serde_json::{Value, json};

use super::place::{CANARY, CREATE, Place, READ, TRUNCATE, WRITE, usage};

/// Returns paths that lead out of a folder, or nowhere.
fn ways_out(root: &Path) -> Vec<String> {
    let root = root.display();
    let mut ways: Vec<String> = [
        "..",
        "../",
        "../canary",
        "../canary/",
        "../outside/canary",
        "../outside/canary/",
        "../outside",
        "../outside/",
        "../outside/.",
        "./../canary",
        ".//../canary",
        "sub/../../canary",
        "sub/../../canary/",
        "sub/../..",
        "sub/deeper/../../../canary",
        "sub/deeper/../../../outside/./canary",
        "sub/./../../outside//canary",
        "sub//..//..//canary",
        "../read/../canary",
        "../write/../outside/canary",
        "nothing/../../canary",
        "file.txt/../../canary",
        "../../../../../../../../../../etc/passwd",
        "../../../../../../../../../../proc/self/environ",
        "/",
        "//",
        "/etc/passwd",
        "//etc/passwd",
        "/etc/../etc/passwd",
        "/proc/self/environ",
        "/proc/self/cwd",
        "/dev/zero",
        "/r/file.txt",
        "/w/file.txt",
        "..\u{0}",
        "canary\u{0}",
        "../canary\u{0}.txt",
        "",
    ]
    .map(str::to_owned)
    .into();
    ways.push(format!("{root}/canary"));
    ways.push(format!("{root}/outside/canary/"));
    ways.push(format!("{}canary", "../".repeat(1500)));
    ways.push("a/".repeat(4000));
    ways.push("a".repeat(9000));
    ways
}

#[tokio::test]
async fn no_path_leads_out() {
    let place = Place::new().await;
    let before = place.untouchable();
    let ways = ways_out(place.root.path());
    assert!(ways.len() >= 40);
    for path in &ways {
        for folder in [0, 1] {
            let at = |more: Value| {
                let mut arguments = json!({"folder": folder, "path": path});
                arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                arguments
            };
            let attempts = [
                ("read", at(json!({"follow": 1}))),
                ("read", at(json!({"follow": 0}))),
                ("open", at(json!({"follow": 1, "how": 2, "for": READ}))),
                ("stat", at(json!({"follow": 1}))),
                ("readlink", at(json!({}))),
                ("list", at(json!({"streams": 1, "names": 5}))),
                ("write", at(json!({"how": CREATE, "offset": 0, "size": 9, "times": 1}))),
                ("write", at(json!({"how": CREATE | TRUNCATE, "offset": 0, "size": 9, "times": 1}))),
                ("stream", at(json!({"how": 0, "append": 1, "size": 9, "times": 1}))),
                ("set-size", at(json!({"size": 1, "for": WRITE}))),
                ("set-times", at(json!({"by-path": 1}))),
                ("mkdir", at(json!({}))),
                ("rmdir", at(json!({}))),
                ("unlink", at(json!({}))),
                ("symlink", json!({"folder": folder, "target": "file.txt", "path": path})),
                ("link", at(json!({"to": folder, "new": "linked"}))),
                ("link", json!({"folder": folder, "path": "file.txt", "to": folder, "new": path})),
                ("rename", at(json!({"to": folder, "new": "moved"}))),
                ("rename", json!({"folder": folder, "path": "file.txt", "to": folder, "new": path})),
            ];
            for (tool, arguments) in attempts {
                let result = place.call(tool, arguments).await;
                assert!(!result.is_ok(), "{tool} {path:?}: {result:?}");
                assert!(!format!("{result:?}").contains(CANARY));
            }
        }
    }
    assert_eq!(place.untouchable(), before);
    assert_eq!(usage(&place.path("write")), (9, 4), "and nothing was made on the way");
}

#[tokio::test]
async fn what_leads_out_is_denied_and_says_so() {
    let place = Place::new().await;
    let result = place.call("read", json!({"folder": 0, "path": "../canary", "follow": 1})).await;
    let error = result.error().unwrap();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Denied, r#""not-permitted""#));
    let refused: Vec<_> = result.metadata.refused.iter().map(ToString::to_string).collect();
    assert_eq!(refused, ["files: open /r/../canary was refused, because it leads out of the folder that was granted"]);
}
