//! Granted powers work, for as long as they are granted.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use fumehood::permission::files::Quota;
use fumehood::{ErrorKind, Grant};
use serde_json::json;

use super::place::{CREATE, Place, TRUNCATE, WRITE, call, load, usage};

#[tokio::test]
async fn granted_folders_work() {
    let place = Place::new().await;
    assert_eq!(place.works("folders", json!({})).await, r#"["/r","/w"]"#);
    for folder in [0, 1] {
        let read = |path: &'static str| place.works("read", json!({"folder": folder, "path": path, "follow": 1}));
        assert_eq!(read("file.txt").await, "file");
        assert_eq!(read("sub/inner.txt").await, "inner");
        assert_eq!(read("./sub//deeper/../../file.txt").await, "file");
        let list = json!({"folder": folder, "path": "sub", "streams": 2, "names": 9});
        assert_eq!(place.works("list", list).await, "4");
        let stat = json!({"folder": folder, "path": "sub/inner.txt", "follow": 0});
        assert_eq!(place.works("stat", stat).await, "5");
    }
    std::fs::write(place.path("read/large"), [b'x'; 200_000]).unwrap();
    for size in [1_000, 100_000] {
        let read = json!({"folder": 0, "path": "large", "size": size});
        assert_eq!(place.works("read-stream", read).await, "200000");
    }
    let write = json!({"folder": 1, "path": "new", "how": CREATE, "offset": 0, "size": 1000, "times": 3});
    assert_eq!(place.works("write", write).await, "3000");
    assert_eq!(std::fs::read(place.path("write/new")).unwrap(), [0; 3000]);
    let stream =
        |append, how| json!({"folder": 1, "path": "new", "how": how, "append": append, "size": 100, "times": 2});
    assert_eq!(place.works("stream", stream(1, 0)).await, "200");
    assert_eq!(std::fs::metadata(place.path("write/new")).unwrap().len(), 3200);
    assert_eq!(place.works("stream", stream(0, TRUNCATE)).await, "200");
    assert_eq!(std::fs::metadata(place.path("write/new")).unwrap().len(), 200);
    place.works("mkdir", json!({"folder": 1, "path": "a/"})).await;
    place.works("rename", json!({"folder": 1, "path": "new", "to": 1, "new": "a/moved"})).await;
    place.works("link", json!({"folder": 1, "path": "a/moved", "to": 1, "new": "a/second"})).await;
    place.works("symlink", json!({"folder": 1, "target": "moved", "path": "a/link"})).await;
    assert_eq!(place.works("readlink", json!({"folder": 1, "path": "a/link"})).await, "moved");
    place.works("set-size", json!({"folder": 1, "path": "a/link", "size": 7, "for": WRITE})).await;
    assert_eq!(std::fs::metadata(place.path("write/a/second")).unwrap().len(), 7);
    place.works("set-times", json!({"folder": 1, "path": "a/moved", "by-path": 1})).await;
    for name in ["a/moved", "a/second", "a/link"] {
        place.works("unlink", json!({"folder": 1, "path": name})).await;
    }
    place.works("rmdir", json!({"folder": 1, "path": "a/"})).await;
    assert_eq!(usage(&place.path("write")), (9, 4), "everything is gone again");
}

#[tokio::test]
async fn what_was_opened_at_load_stays_what_is_granted() {
    let place = Place::new().await;
    std::fs::rename(place.path("read"), place.path("elsewhere")).unwrap();
    symlink(place.path("outside"), place.path("read")).unwrap();
    assert_eq!(place.works("read", json!({"folder": 0, "path": "file.txt", "follow": 1})).await, "file");
    assert_eq!(place.code("read", json!({"folder": 0, "path": "canary", "follow": 1})).await, "no-entry");
}

#[tokio::test]
async fn scratch_space_is_new_for_every_call() {
    let host = load(Grant::none().with_scratch(Quota::new(10_000, 20).unwrap()).unwrap()).await.unwrap();
    assert_eq!(call(&host, "folders", json!({})).await.text().as_deref(), Some(r#"["/scratch"]"#));
    for _ in 0..3 {
        let flood = call(&host, "flood", json!({"folder": 0, "folders": 0, "count": 20})).await;
        assert_eq!(flood.text().as_deref(), Some("20"));
        let write = json!({"folder": 0, "path": "x", "how": CREATE, "offset": 0, "size": 10_000, "times": 1});
        assert_eq!(call(&host, "write", write).await.text().as_deref(), Some("10000"));
        let full = json!({"folder": 0, "path": "x", "how": CREATE, "offset": 0, "size": 10_000, "times": 2});
        assert_eq!(call(&host, "write", full).await.error().unwrap().kind, ErrorKind::Quota);
    }
}

/// Counts the files below a folder that this process has open.
fn held(root: &Path) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    links.filter_map(|link| std::fs::read_link(link.path()).ok()).filter(|to| to.starts_with(root)).count()
}

#[tokio::test]
async fn nothing_stays_open_after_a_call() {
    let place = Place::new().await;
    let root = place.root.path().canonicalize().unwrap();
    assert_eq!(held(&root), 2, "the granted folders");
    for _ in 0..20 {
        place.call("open-many", json!({"folder": 1, "path": "file.txt", "times": 100})).await;
        place.call("list", json!({"folder": 1, "path": "sub", "streams": 100, "names": 0})).await;
        place
            .call("stream", json!({"folder": 1, "path": "file.txt", "how": 0, "append": 1, "size": 1, "times": 3}))
            .await;
    }
    assert_eq!(held(&root), 2);
    drop(place);
    for _ in 0..100 {
        if held(&root) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} are still open", held(&root));
}
