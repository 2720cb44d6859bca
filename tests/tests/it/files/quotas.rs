//! Quotas: limits on what a tool adds, opens and holds.

use std::path::Path;
use std::sync::Arc;

use fumehood::ErrorKind;
use fumehood::permission::files::Quota;
use serde_json::json;

use super::place::{CREATE, Place, READ, TRUNCATE, WRITE, usage};

#[tokio::test]
async fn a_disk_is_not_filled() {
    const QUOTA: u64 = 1 << 20;
    for (tool, arguments) in [
        ("write", json!({"folder": 1, "path": "full", "how": CREATE, "offset": 0, "size": 65536, "times": 1000})),
        ("stream", json!({"folder": 1, "path": "full", "how": CREATE, "append": 0, "size": 4096, "times": 10000})),
        ("stream", json!({"folder": 1, "path": "full", "how": CREATE, "append": 1, "size": 4096, "times": 10000})),
    ] {
        let place = Place::with_quota(Quota::new(QUOTA, 100).unwrap()).await;
        let result = place.call(tool, arguments.clone()).await;
        let error = result.error().unwrap();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Quota, r#""quota""#), "{tool}");
        assert!(error.hint.as_ref().unwrap().contains("it may add at most 1"), "{error:?}");
        assert_eq!(usage(&place.path("write")).0, QUOTA + 9, "all of it, and not a byte more");
        // The quota holds across calls, for every file, and for holes.
        for path in ["full", "other"] {
            let more = json!({"folder": 1, "path": path, "how": CREATE, "offset": QUOTA, "size": 1, "times": 1});
            assert_eq!(place.code("write", more).await, "quota");
        }
        // Overwriting costs nothing, and removing gives back.
        let again = json!({"folder": 1, "path": "full", "how": 0, "offset": 0, "size": 65536, "times": 16});
        assert_eq!(place.works("write", again).await, QUOTA.to_string());
        place.works("unlink", json!({"folder": 1, "path": "full"})).await;
        assert!(!place.call(tool, arguments).await.is_ok());
        assert_eq!(usage(&place.path("write")).0, QUOTA + 9);
    }
}

#[tokio::test]
async fn many_calls_at_once_share_one_quota() {
    const QUOTA: u64 = 256 << 10;
    let place = Arc::new(Place::with_quota(Quota::new(QUOTA, 100).unwrap()).await);
    let one = |number: usize| {
        let place = Arc::clone(&place);
        let path = format!("f{}", number % 3);
        let append = json!({"folder": 1, "path": path, "how": CREATE, "append": 1, "size": 4096, "times": 40});
        let cut = json!({"folder": 1, "path": path, "how": CREATE | TRUNCATE, "offset": 0, "size": 9000, "times": 5});
        let gone = json!({"folder": 1, "path": path});
        tokio::spawn(async move {
            for _ in 0..5 {
                place.call("stream", append.clone()).await;
                place.call("write", cut.clone()).await;
                place.call("unlink", gone.clone()).await;
                let (bytes, names) = usage_now(&place.path("write"));
                assert!(bytes <= QUOTA + 9 && names <= 104, "{bytes} bytes, {names} names");
            }
        })
    };
    for task in (0..6).map(one).collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

/// Like [`usage`], while others remove files.
fn usage_now(path: &Path) -> (u64, u64) {
    let entries: Vec<_> = std::fs::read_dir(path).unwrap().flatten().collect();
    let bytes = entries.iter().filter_map(|entry| entry.metadata().ok()).filter(|it| it.is_file()).map(|it| it.len());
    (bytes.sum(), entries.len() as u64)
}

#[tokio::test]
async fn holes_are_not_free() {
    let place = Place::with_quota(Quota::new(1 << 20, 100).unwrap()).await;
    for size in [json!((1 << 20) + 5), json!(1_u64 << 43), json!("9223372036854775807"), json!("18446744073709551615")]
    {
        let arguments = json!({"folder": 1, "path": "file.txt", "size": size, "for": WRITE});
        let result = place.call("set-size", arguments).await;
        assert_eq!(result.error().unwrap().kind, ErrorKind::Quota, "{size}: {result:?}");
    }
    assert_eq!(usage(&place.path("write")).0, 9);
    place.works("set-size", json!({"folder": 1, "path": "file.txt", "size": (1 << 20) + 4, "for": WRITE})).await;
    assert_eq!(usage(&place.path("write")).0, (1 << 20) + 9);
}

#[tokio::test]
async fn holes_that_were_there_before_are_charged_when_filled() {
    const QUOTA: u64 = 1 << 20;
    let place = Place::with_quota(Quota::new(QUOTA, 100).unwrap()).await;
    let sparse = place.path("write").join("sparse");
    std::fs::File::create(&sparse).unwrap().set_len(64 << 20).unwrap();
    let allocated = || std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&sparse).unwrap()) * 512;
    let fill = |offset: u64, size: u64, times: u64| json!({"folder": 1, "path": "sparse", "how": 0, "offset": offset, "size": size, "times": times});
    assert_eq!(place.code("write", fill(0, 65536, 1000)).await, "quota");
    assert_eq!(place.code("write", fill(32 << 20, 1, 1)).await, "quota");
    assert!(allocated() <= QUOTA, "{} bytes", allocated());
    // Bytes that were charged may be overwritten, and truncating holes that were never charged gives nothing back.
    place.works("set-size", json!({"folder": 1, "path": "sparse", "size": QUOTA, "for": WRITE})).await;
    let more = json!({"folder": 1, "path": "other", "how": CREATE, "offset": 0, "size": 1, "times": 1});
    assert_eq!(place.code("write", more).await, "quota");
}

#[tokio::test]
async fn targets_of_links_are_charged_and_given_back() {
    let place = Place::with_quota(Quota::new(10_000, 1000).unwrap()).await;
    let target = "x/".repeat(500);
    let link = |name: &str| json!({"folder": 1, "target": target, "path": name});
    for number in 0..10 {
        place.works("symlink", link(&format!("l{number}"))).await;
    }
    let refused = place.call("symlink", link("one-more")).await;
    let error = refused.error().unwrap();
    assert_eq!(error.kind, ErrorKind::Quota, "{error:?}");
    assert!(error.hint.as_ref().unwrap().contains("it may add"), "{error:?}");
    let written = json!({"folder": 1, "path": "new", "how": CREATE, "offset": 0, "size": 1, "times": 1});
    assert_eq!(place.code("write", written.clone()).await, "quota");
    // A second name of a link takes up nothing, and removing it gives nothing back.
    place.works("link", json!({"folder": 1, "path": "l0", "to": 1, "new": "same"})).await;
    place.works("unlink", json!({"folder": 1, "path": "same"})).await;
    assert_eq!(place.code("symlink", link("one-more")).await, "quota");
    // Removing a link and renaming another over it give back one target each.
    place.works("unlink", json!({"folder": 1, "path": "l0"})).await;
    place.works("symlink", link("l0")).await;
    assert_eq!(place.code("symlink", link("one-more")).await, "quota");
    place.works("rename", json!({"folder": 1, "path": "l0", "to": 1, "new": "l1"})).await;
    place.works("symlink", link("l0")).await;
    assert_eq!(place.code("symlink", link("one-more")).await, "quota");
}

#[tokio::test]
async fn names_do_not_flood_a_folder() {
    for folders in [0, 1] {
        let place = Place::with_quota(Quota::new(1 << 20, 50).unwrap()).await;
        let result = place.call("flood", json!({"folder": 1, "folders": folders, "count": 1_000_000})).await;
        assert_eq!(result.error().unwrap().kind, ErrorKind::Quota, "{result:?}");
        assert_eq!(usage(&place.path("write")).1, 4 + 50);
        for (tool, arguments) in [
            ("symlink", json!({"folder": 1, "target": "file.txt", "path": "one-more"})),
            ("link", json!({"folder": 1, "path": "file.txt", "to": 1, "new": "one-more"})),
            ("mkdir", json!({"folder": 1, "path": "one-more"})),
            ("open", json!({"folder": 1, "path": "one-more", "follow": 0, "how": CREATE, "for": READ})),
        ] {
            assert_eq!(place.code(tool, arguments).await, "quota", "{tool}");
        }
        // Renaming a second name over its own file does nothing, and gives nothing back.
        place.works(if folders == 1 { "rmdir" } else { "unlink" }, json!({"folder": 1, "path": "aaaaaa"})).await;
        place.works("link", json!({"folder": 1, "path": "file.txt", "to": 1, "new": "same"})).await;
        place.works("rename", json!({"folder": 1, "path": "same", "to": 1, "new": "file.txt"})).await;
        assert_eq!(place.code("mkdir", json!({"folder": 1, "path": "one-more"})).await, "quota");
        // Renaming over another name gives one back.
        place.works("rename", json!({"folder": 1, "path": "sub/inner.txt", "to": 1, "new": "file.txt"})).await;
        place.works("mkdir", json!({"folder": 1, "path": "one-more"})).await;
    }
}

#[tokio::test]
async fn no_call_holds_more_than_64_open() {
    let place = Place::new().await;
    let many = |path: &str, times: u32| json!({"folder": 0, "path": path, "times": times});
    assert_eq!(place.works("open-many", many("file.txt", 64)).await, "64");
    for path in ["file.txt", "sub"] {
        let result = place.call("open-many", many(path, 65)).await;
        assert_eq!(result.error().unwrap().kind, ErrorKind::Quota);
        assert!(result.metadata.exhausted[0].contains("64 open files and folders"), "{result:?}");
    }
    let streams = json!({"folder": 0, "path": "sub", "streams": 64, "names": 0});
    assert_eq!(place.code("list", streams).await, "quota");
}

#[tokio::test]
async fn no_call_piles_up_what_is_to_be_written() {
    let place = Place::new().await;
    let pile = |streams, size| {
        place.call("pile-up", json!({"folder": 1, "path": "file.txt", "streams": streams, "size": size}))
    };
    assert_eq!(pile(64, 65_536).await.text().as_deref(), Some("64"));
    let result = pile(65, 1).await;
    assert_eq!(result.error().unwrap().kind, ErrorKind::Quota);
    assert!(result.metadata.exhausted[0].contains("64 open file streams"), "{result:?}");
    let result = pile(1, 65_537).await;
    assert_eq!(result.error().unwrap().kind, ErrorKind::Trap, "{result:?}");
}
