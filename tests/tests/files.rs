//! A tool sees the folders that it was granted and nothing beside them, and adds no more to them than it may.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fumehood::permission::files::{Access, Folder, Quota};
use fumehood::{Call, CallResult, ErrorKind, Grant, Host, Load};
use fumehood_tests::component;
use serde_json::{Value, json};

const CANARY: &str = "CANARY: nobody may read this";
/// What is asked for when something is opened.
const CREATE: u32 = 1;
const TRUNCATE: u32 = 8;
const READ: u32 = 1;
const WRITE: u32 = 2;

/// `read` (folder 0) and `write` (folder 1), and beside them what nobody may get at.
struct Place {
    root: tempfile::TempDir,
    host: Host,
}

impl Place {
    async fn new() -> Self {
        Self::with_quota(Quota::default()).await
    }

    async fn with_quota(quota: Quota) -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["outside", "read", "write"] {
            std::fs::create_dir_all(root.path().join(folder).join("sub/deeper")).unwrap();
            std::fs::write(root.path().join(folder).join("sub/inner.txt"), "inner").unwrap();
            std::fs::write(root.path().join(folder).join("file.txt"), "file").unwrap();
        }
        std::fs::write(root.path().join("outside/canary"), CANARY).unwrap();
        std::fs::write(root.path().join("canary"), CANARY).unwrap();
        let read = Folder::new(root.path().join("read"), "/r", Access::Read).unwrap();
        let write = Folder::new(root.path().join("write"), "/w", Access::Write(quota)).unwrap();
        let grant = Grant::none().with_folder(read).unwrap().with_folder(write).unwrap();
        Self { host: load(grant).await.unwrap(), root }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    async fn call(&self, tool: &str, arguments: Value) -> CallResult {
        call(&self.host, tool, arguments).await
    }

    /// The error code that the tool was told.
    async fn code(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        let error = result.error().unwrap_or_else(|| panic!("{tool} should fail: {result:?}"));
        error.message.trim_matches('"').to_owned()
    }

    async fn works(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        result.text().unwrap_or_else(|| panic!("{tool} should work: {result:?}")).to_owned()
    }

    /// Everything that nobody may change.
    fn untouchable(&self) -> BTreeMap<PathBuf, String> {
        let mut seen = BTreeMap::new();
        for folder in ["outside", "read"] {
            look(&self.path(folder), &mut seen);
        }
        seen.insert(self.path("canary"), std::fs::read_to_string(self.path("canary")).unwrap());
        seen.insert(self.path("."), std::fs::read_dir(self.path(".")).unwrap().count().to_string());
        seen
    }
}

/// Names, kinds, contents, modes, links and times of everything in a folder, however it is read.
fn look(path: &Path, seen: &mut BTreeMap<PathBuf, String>) {
    let metadata = std::fs::symlink_metadata(path).unwrap();
    let content = if metadata.is_file() {
        std::fs::read_to_string(path).unwrap()
    } else if metadata.is_symlink() {
        std::fs::read_link(path).unwrap().display().to_string()
    } else {
        String::new()
    };
    let (kind, mode, links) = (metadata.file_type(), metadata.mode(), metadata.nlink());
    seen.insert(path.to_owned(), format!("{kind:?} {mode} {links} {:?} {content}", metadata.modified().unwrap()));
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            look(&entry.unwrap().path(), seen);
        }
    }
}

async fn load(grant: Grant) -> Result<Host, fumehood::LoadError> {
    let host = Host::builder().concurrency(8).build().unwrap();
    host.load(Load::bytes("it", component("files").unwrap()).with_grant(grant)).await?;
    Ok(host)
}

async fn call(host: &Host, tool: &str, arguments: Value) -> CallResult {
    host.call(Call::new(format!("it__{tool}"), arguments)).await
}

/// Bytes and names in a folder, without following links.
fn usage(path: &Path) -> (u64, u64) {
    let mut sum = (0, 0);
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        sum.1 += 1;
        if metadata.is_dir() {
            let inner = usage(&entry.path());
            sum = (sum.0 + inner.0, sum.1 + inner.1);
        } else if metadata.is_file() {
            sum.0 += metadata.len();
        }
    }
    sum
}

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

/// Paths that lead out of a folder, or nowhere.
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
    // To move such a link is not to make one, but it could come to lead elsewhere.
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
            assert!(result.metadata.refused[0].because.contains("beside it or below"));
        }
    }
    assert_eq!(usage(&place.path("write")), (9, 4));
    place.works("symlink", json!({"folder": 1, "target": "deeper/x..y", "path": "sub/planted"})).await;
}

#[tokio::test]
async fn nothing_changes_in_a_folder_for_reading() {
    let place = Place::new().await;
    symlink("file.txt", place.path("read/link")).unwrap();
    let before = place.untouchable();
    let file = |more: Value| {
        let mut arguments = json!({"folder": 0, "path": "file.txt"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let attempts = [
        ("write", file(json!({"how": 0, "offset": 0, "size": 1, "times": 1}))),
        ("open", json!({"folder": 0, "path": "new", "follow": 0, "how": CREATE, "for": READ})),
        ("open", file(json!({"follow": 1, "how": TRUNCATE, "for": READ}))),
        ("stream", file(json!({"how": 0, "append": 0, "size": 1, "times": 1}))),
        ("stream", file(json!({"how": 0, "append": 1, "size": 1, "times": 1}))),
        ("set-size", file(json!({"size": 0, "for": READ}))),
        ("set-size", file(json!({"size": 0, "for": WRITE}))),
        ("set-times", file(json!({"by-path": 0}))),
        ("set-times", file(json!({"by-path": 1}))),
        ("mkdir", json!({"folder": 0, "path": "new"})),
        ("rmdir", json!({"folder": 0, "path": "sub/deeper"})),
        ("unlink", file(json!({}))),
        ("unlink", json!({"folder": 0, "path": "link"})),
        ("symlink", json!({"folder": 0, "target": "file.txt", "path": "new"})),
        ("link", file(json!({"to": 0, "new": "new"}))),
        ("rename", file(json!({"to": 0, "new": "new"}))),
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

/// Tells whoever runs to stop when it goes.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_race_is_never_won() {
    const OPENS: u32 = 20_000;
    let place = Place::new().await;
    let (folder, outside) = (place.path("write"), place.path("outside"));
    std::fs::create_dir(folder.join("real")).unwrap();
    std::fs::write(folder.join("real/canary"), "fine").unwrap();
    symlink(&outside, folder.join("bad")).unwrap();
    let stop = Stop(Arc::default());
    let stopped = Arc::clone(&stop.0);
    // `swap` is by turns a folder and a link that leads out.
    let swapping = std::thread::spawn(move || {
        let swap = folder.join("swap");
        std::fs::rename(folder.join("real"), &swap).unwrap();
        let exchange = || {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            renameat_with(CWD, folder.join("bad"), CWD, &swap, RenameFlags::EXCHANGE).unwrap();
        };
        let mut turns = 0_u32;
        while !stopped.load(Ordering::Relaxed) {
            exchange();
            turns += 1;
            if turns.is_multiple_of(8) {
                std::thread::yield_now();
            }
        }
        turns
    });
    let (mut worked, mut canaries) = (0_u64, 0_u64);
    for _ in 0..5 {
        let text = place.works("race", json!({"folder": 1, "path": "swap/canary", "times": OPENS / 5})).await;
        let counts: [u64; 2] = serde_json::from_str(&text).unwrap();
        (worked, canaries) = (worked + counts[0], canaries + counts[1]);
    }
    drop(stop);
    let turns = swapping.join().unwrap();
    assert_eq!(canaries, 0, "of {OPENS}");
    assert!(turns > 100 && worked > 0 && worked < u64::from(OPENS), "there was a race: {turns} turns, {worked} opens");
}

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
        assert!(error.hint.as_ref().unwrap().contains("it may add 1"), "{error:?}");
        assert_eq!(usage(&place.path("write")).0, QUOTA + 9, "all of it, and not a byte more");
        // It holds over all calls, for every file, and for holes.
        for path in ["full", "other"] {
            let more = json!({"folder": 1, "path": path, "how": CREATE, "offset": QUOTA, "size": 1, "times": 1});
            assert_eq!(place.code("write", more).await, "quota");
        }
        // Overwriting costs nothing, and what is removed is given back.
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

/// The same as [`usage`] while others remove files.
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
        // To move a second name over its own file does nothing, and gives nothing back.
        place.works(if folders == 1 { "rmdir" } else { "unlink" }, json!({"folder": 1, "path": "aaaaaa"})).await;
        place.works("link", json!({"folder": 1, "path": "file.txt", "to": 1, "new": "same"})).await;
        place.works("rename", json!({"folder": 1, "path": "same", "to": 1, "new": "file.txt"})).await;
        assert_eq!(place.code("mkdir", json!({"folder": 1, "path": "one-more"})).await, "quota");
        // To move a name over another gives one back.
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
        assert!(result.metadata.exhausted[0].contains("64 files and folders open"), "{result:?}");
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
    assert_eq!(pile(64, 65_536).await.text(), Some("64"));
    let result = pile(65, 1).await;
    assert_eq!(result.error().unwrap().kind, ErrorKind::Quota);
    assert!(result.metadata.exhausted[0].contains("64 streams"), "{result:?}");
    let result = pile(1, 65_537).await;
    assert_eq!(result.error().unwrap().kind, ErrorKind::Trap, "{result:?}");
}

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
    place.host.shut_down(Duration::from_secs(1)).await;
    assert!(shut.elapsed() < Duration::from_secs(2));
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
    assert_eq!(call(&host, "folders", json!({})).await.text(), Some(r#"["/scratch"]"#));
    for _ in 0..3 {
        let flood = call(&host, "flood", json!({"folder": 0, "folders": 0, "count": 20})).await;
        assert_eq!(flood.text(), Some("20"));
        let write = json!({"folder": 0, "path": "x", "how": CREATE, "offset": 0, "size": 10_000, "times": 1});
        assert_eq!(call(&host, "write", write).await.text(), Some("10000"));
        let full = json!({"folder": 0, "path": "x", "how": CREATE, "offset": 0, "size": 10_000, "times": 2});
        assert_eq!(call(&host, "write", full).await.error().unwrap().kind, ErrorKind::Quota);
    }
}

/// How many files this process has open below a folder.
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

async fn refused(grant: Result<Grant, impl std::fmt::Debug>) -> String {
    let error = load(grant.unwrap()).await.map(|_| ()).unwrap_err();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

#[tokio::test]
async fn a_grant_that_cannot_be_kept_fails_the_load() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name).display().to_string();
    std::fs::create_dir_all(root.path().join("docs/sub")).unwrap();
    std::fs::write(root.path().join("file"), "").unwrap();
    symlink("/proc/self", root.path().join("to-proc")).unwrap();
    symlink("docs/sub", root.path().join("to-sub")).unwrap();
    symlink("loop", root.path().join("loop")).unwrap();
    let read = |path: &str| Grant::none().with_folder(Folder::read(&format!("{path}:/x")).unwrap());
    let check = |said: String, says: &[&str]| {
        for part in says {
            assert!(said.contains(part), "{part:?} is missing in: {said}");
        }
    };
    check(refused(read(&at("missing"))).await, &["missing", "does not exist", "create it"]);
    check(refused(read("no-such-folder")).await, &["`no-such-folder` does not exist (looked for at /"]);
    check(refused(read(&at("file"))).await, &["file", "is granted as a folder and is none"]);
    check(refused(read(&at("file/x"))).await, &["is granted as a folder and is none"]);
    check(refused(read(&at("loop"))).await, &["cannot be opened", "symbolic links"]);
    check(refused(read("/")).await, &["root of the whole machine"]);
    check(refused(read("/usr/..")).await, &["root of the whole machine"]);
    check(refused(read("/proc")).await, &["lies in /proc"]);
    check(refused(read("/proc/self/fd")).await, &["lies in /proc"]);
    check(refused(read("/sys")).await, &["lies in /sys"]);
    check(refused(read("/dev")).await, &["lies in /dev"]);
    check(refused(read(&at("to-proc"))).await, &["to-proc", "lies in /proc"]);
    let overlap = Grant::none()
        .with_folder(Folder::read(&format!("{}:/a", at("docs"))).unwrap())
        .and_then(|grant| grant.with_folder(Folder::write(&format!("{}:/b", at("to-sub"))).unwrap()));
    check(refused(overlap).await, &["to-sub", "lies in it", "granted for writing"]);
}

#[tokio::test]
async fn the_hosts_own_folders_are_never_granted() {
    let root = tempfile::tempdir().unwrap();
    let private = |name: &str| {
        let path = root.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let (cache, state, docs) = (private("cache/code"), private("state"), private("docs"));
    let cache = fumehood::CodeCache::open(cache.join("mine")).unwrap();
    let host = Host::builder().concurrency(4).code_cache(cache).own_folder(&state).build().unwrap();
    let load = |path: PathBuf| {
        let grant = Grant::none().with_folder(Folder::new(path, "/x", Access::Read).unwrap()).unwrap();
        host.load(Load::bytes("it", component("files").unwrap()).with_grant(grant))
    };
    for path in [state.clone(), state.join("../state"), root.path().to_owned(), root.path().join("cache")] {
        let error = load(path.clone()).await.map(|_| ()).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("where the host keeps its own files"), "{path:?}: {cause}");
    }
    load(docs).await.unwrap();
}
