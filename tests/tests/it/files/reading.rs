//! Files that are granted for reading stay as they are.

use std::os::unix::fs::symlink;

use fumehood::permission::files::Folder;
use fumehood::{ErrorKind, Grant};
use serde_json::{Value, json};

use super::place::{CREATE, Place, READ, TRUNCATE, WRITE, call, load, usage};

#[tokio::test]
async fn nothing_changes_in_a_folder_for_reading() {
    let place = Place::new().await;
    symlink("file.txt", place.path("read/link")).unwrap();
    let before = place.untouchable();
    let attempts = [
        ("write", on_file(json!({"how": 0, "offset": 0, "size": 1, "times": 1}))),
        ("open", json!({"folder": 0, "path": "new", "follow": 0, "how": CREATE, "for": READ})),
        ("open", on_file(json!({"follow": 1, "how": TRUNCATE, "for": READ}))),
        ("stream", on_file(json!({"how": 0, "append": 0, "size": 1, "times": 1}))),
        ("stream", on_file(json!({"how": 0, "append": 1, "size": 1, "times": 1}))),
        ("set-size", on_file(json!({"size": 0, "for": READ}))),
        ("set-size", on_file(json!({"size": 0, "for": WRITE}))),
        ("set-times", on_file(json!({"by-path": 0}))),
        ("set-times", on_file(json!({"by-path": 1}))),
        ("mkdir", json!({"folder": 0, "path": "new"})),
        ("rmdir", json!({"folder": 0, "path": "sub/deeper"})),
        ("unlink", on_file(json!({}))),
        ("unlink", json!({"folder": 0, "path": "link"})),
        ("symlink", json!({"folder": 0, "target": "file.txt", "path": "new"})),
        ("link", on_file(json!({"to": 0, "new": "new"}))),
        ("rename", on_file(json!({"to": 0, "new": "new"}))),
    ];
    for (tool, arguments) in attempts {
        let result = place.call(tool, arguments.clone()).await;
        let error = result.error().unwrap_or_else(|| panic!("{tool} should fail: {result:?}"));
        assert_eq!(error.message, r#""not-permitted""#, "{tool} {arguments}");
        assert_eq!(error.kind, ErrorKind::Denied);
        let refused = &result.metadata.refused[0];
        assert_eq!(refused.because, "the folder is granted for reading only");
        let line = format!("write = [\"{}:/r\"]", place.path("read").display());
        assert_eq!(refused.allow.as_deref(), Some(line.as_str()));
    }
    assert_eq!(place.untouchable(), before);
}

fn on_file(more: Value) -> Value {
    let mut arguments = json!({"folder": 0, "path": "file.txt"});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

#[tokio::test]
async fn nothing_moves_between_folders() {
    let place = Place::new().await;
    let before = place.untouchable();
    for (tool, from, to) in [("link", 0, 1), ("link", 1, 0), ("rename", 0, 1), ("rename", 1, 0)] {
        let arguments = json!({"folder": from, "path": "file.txt", "to": to, "new": "new"});
        assert_eq!(place.code(tool, arguments).await, "not-permitted", "{tool} {from} → {to}");
    }
    assert_eq!(place.untouchable(), before);
    assert_eq!(usage(&place.path("write")), (9, 4));

    let root = tempfile::tempdir().unwrap();
    let mut grant = Grant::none();
    for name in ["a", "b"] {
        std::fs::create_dir(root.path().join(name)).unwrap();
        let folder = Folder::write(&format!("{}/{name}:/{name}", root.path().display())).unwrap();
        grant = grant.with_folder(folder).unwrap();
    }
    std::fs::write(root.path().join("a/file"), "x").unwrap();
    let host = load(grant).await.unwrap();
    for tool in ["link", "rename"] {
        let result = call(&host, tool, json!({"folder": 0, "path": "file", "to": 1, "new": "file"})).await;
        assert_eq!(result.error().unwrap().message, r#""cross-device""#, "programs copy then");
    }
}
