//! Special files, neither files nor folders, are not opened.

use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::time::{Duration, Instant};

use fumehood::ErrorKind;
use serde_json::json;

use super::place::{Place, READ, WRITE};

#[tokio::test]
async fn pipes_sockets_and_devices_are_not_opened() {
    let place = Place::new().await;
    for folder in ["read", "write"] {
        let fifo = place.path(folder).join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o666),
            0,
        )
        .unwrap();
        assert!(std::fs::metadata(&fifo).unwrap().file_type().is_fifo());
        symlink("fifo", place.path(folder).join("to-fifo")).unwrap();
        let _bound = std::os::unix::net::UnixListener::bind(place.path(folder).join("socket")).unwrap();
    }
    let started = Instant::now();
    let mut attempts = Vec::new();
    for _ in 0..100 {
        for (folder, path, for_what) in [
            (0, "fifo", READ),
            (1, "fifo", READ),
            (1, "fifo", WRITE),
            (1, "to-fifo", READ | WRITE),
            (0, "socket", READ),
        ] {
            attempts.push(json!({"folder": folder, "path": path, "follow": 1, "how": 0, "for": for_what}));
        }
    }
    for attempt in attempts {
        let result = place.call("open", attempt).await;
        assert_eq!(result.error().unwrap().kind, ErrorKind::Denied, "{result:?}");
        let because = &result.metadata.refused[0].because;
        assert!(because.contains("a named pipe") || because.contains("a socket"), "{because}");
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!(place.works("read", json!({"folder": 0, "path": "file.txt", "follow": 1})).await, "file");
    let shut = Instant::now();
    place.host.shutdown(Duration::from_secs(1)).await;
    assert!(shut.elapsed() < Duration::from_secs(2));
}
