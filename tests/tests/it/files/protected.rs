//! Protected files of the host in a granted folder: they cannot be changed, replaced or planted, and secrets cannot be
//! read.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fumehood::permission::files::{FileRole, Folder};
use fumehood::{Grant, Host, Load};
use fumehood_tests::component;
use serde_json::{Value, json};

use super::place::{CREATE, READ, TRUNCATE, WRITE, call, look};

/// A folder of the host's own files, all of it granted for writing.
struct Work {
    root: tempfile::TempDir,
    host: Host,
}

impl Work {
    async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        std::fs::create_dir_all(at("real/sub")).unwrap();
        for name in ["fumehood.toml", "real/config.toml", "token", "free"] {
            std::fs::write(at(name), "as it was").unwrap();
        }
        std::fs::write(at("it.wasm"), component("files").unwrap()).unwrap();
        std::fs::hard_link(at("fumehood.toml"), at("alias")).unwrap();
        std::fs::hard_link(at("token"), at("token-alias")).unwrap();
        for (target, link) in [
            ("fumehood.toml", "sneaky"),
            ("sneaky", "sneakier"),
            ("fumehood.lock", "dangling"),
            ("token", "token-link"),
            ("real", "way"),
            ("real/config.toml", "linked.toml"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        let host = Host::builder()
            .concurrency(8)
            .protect(at("fumehood.toml"), FileRole::Configuration)
            .protect(at("fumehood.lock"), FileRole::Lock)
            .protect(at("linked.toml"), FileRole::Configuration)
            .protect(at("linked.lock"), FileRole::Lock)
            .protect(at("way/sub/later.toml"), FileRole::Configuration)
            .protect(at("token"), FileRole::Secret)
            .build()
            .unwrap();
        let grant = Grant::none().with_folder(Folder::write(&format!("{}:/w", root.path().display())).unwrap());
        host.load(Load::path(at("it.wasm")).grant(grant.unwrap())).await.unwrap();
        Self { root, host }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Returns the state of the files, except for the component, which is not text.
    fn seen(&self) -> BTreeMap<PathBuf, String> {
        let mut seen = BTreeMap::new();
        for name in ["fumehood.toml", "linked.toml", "real", "token", "way", "dangling", "sneaky"] {
            look(&self.path(name), &mut seen);
        }
        seen.insert("it.wasm".into(), fumehood::Digest::of(&std::fs::read(self.path("it.wasm")).unwrap()).to_string());
        seen.insert("names".into(), std::fs::read_dir(self.root.path()).unwrap().count().to_string());
        seen
    }

    /// Makes an attempt that has to be refused, and returns the text of the refusal.
    async fn refused(&self, tool: &str, arguments: Value) -> String {
        let result = call(&self.host, tool, arguments.clone()).await;
        let said = result.metadata.refused.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        assert!(!result.is_ok() && !said.is_empty(), "{tool} {arguments}: {result:?}");
        said
    }

    async fn works(&self, tool: &str, arguments: Value) {
        let result = call(&self.host, tool, arguments.clone()).await;
        assert!(result.is_ok(), "{tool} {arguments}: {result:?}");
    }
}

fn on(path: &str, more: Value) -> Value {
    let mut arguments = json!({"folder": 0, "path": path});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

/// Returns calls that change the content of a file.
fn writes(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("write", on(path, json!({"how": 0, "offset": 0, "size": 9, "times": 1}))),
        ("write", on(path, json!({"how": CREATE, "offset": 0, "size": 9, "times": 1}))),
        ("write", on(path, json!({"how": CREATE | TRUNCATE, "offset": 0, "size": 9, "times": 1}))),
        ("stream", on(path, json!({"how": 0, "append": 1, "size": 9, "times": 1}))),
        ("set-size", on(path, json!({"size": 1, "for": WRITE}))),
        ("set-times", on(path, json!({"by-path": 1}))),
        ("set-times", on(path, json!({"by-path": 0}))),
        ("open", on(path, json!({"follow": 1, "how": TRUNCATE, "for": READ}))),
    ]
}

/// Returns calls that change what a name refers to.
fn renames(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("mkdir", on(path, json!({}))),
        ("unlink", on(path, json!({}))),
        ("rmdir", on(path, json!({}))),
        ("symlink", json!({"folder": 0, "target": "free", "path": path})),
        ("link", json!({"folder": 0, "path": "free", "to": 0, "new": path})),
        ("rename", json!({"folder": 0, "path": "free", "to": 0, "new": path})),
        ("rename", on(path, json!({"to": 0, "new": "moved"}))),
    ]
}

#[tokio::test]
async fn a_protected_file_is_not_changed_under_any_name() {
    let work = Work::new().await;
    let before = work.seen();
    for path in ["fumehood.toml", "real/../fumehood.toml", "sneaky", "sneakier", "alias", "it.wasm", "linked.toml"] {
        for (tool, arguments) in writes(path) {
            let said = work.refused(tool, arguments.clone()).await;
            assert!(said.contains("which no tool may change"), "{tool} {arguments}: {said}");
            assert_eq!(work.seen(), before, "{tool} {arguments}");
        }
    }
    for path in ["fumehood.toml", "it.wasm", "linked.toml", "real/config.toml"] {
        for (tool, arguments) in renames(path) {
            work.refused(tool, arguments.clone()).await;
            assert_eq!(work.seen(), before, "{tool} {arguments}");
        }
        work.refused("link", on(path, json!({"to": 0, "new": "second"}))).await;
        assert_eq!(work.seen(), before, "{path}");
    }
    let said = work.refused("unlink", on("fumehood.toml", json!({}))).await;
    let file = work.path("fumehood.toml").display().to_string();
    assert_eq!(
        said,
        format!(
            "files: remove /w/fumehood.toml was refused, because `{file}` is the configuration of the host, which no tool may change"
        )
    );
}

#[tokio::test]
async fn what_is_not_there_yet_is_not_planted() {
    let work = Work::new().await;
    let before = work.seen();
    let create = |path: &str| ("write", on(path, json!({"how": CREATE, "offset": 0, "size": 9, "times": 1})));
    for path in ["fumehood.lock", "FUMEHOOD.LOCK", ".fumehood.lock.x1y2", "linked.lock", "real/sub/later.toml"] {
        let taken = renames(path).into_iter().filter(|(tool, _)| !matches!(*tool, "unlink" | "rmdir"));
        for (tool, arguments) in taken.chain([create(path)]) {
            work.refused(tool, arguments.clone()).await;
            assert_eq!(work.seen(), before, "{tool} {arguments}");
        }
    }
    // A file is never created through a link that leads to it.
    let (tool, arguments) = create("dangling");
    assert!(!call(&work.host, tool, arguments).await.is_ok());
    assert_eq!(work.seen(), before);
}

#[tokio::test]
async fn components_of_a_folder_are_neither_changed_nor_planted() {
    for (protected, granted) in [("tools", "."), ("tools", "tools"), ("link", "."), (".", "."), ("later", ".")] {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        std::fs::create_dir_all(at("tools/sub")).unwrap();
        std::fs::write(at("it.wasm"), component("files").unwrap()).unwrap();
        symlink("tools", at("link")).unwrap();
        let below = if granted == "tools" || protected == "." { "" } else { "tools/" };
        let outside = if granted == "tools" { at("tools") } else { root.path().to_owned() };
        std::fs::write(outside.join("free"), "as it was").unwrap();
        let there = outside.join(format!("{below}there.wasm"));
        std::fs::write(&there, "as it was").unwrap();
        let host = Host::builder().concurrency(8).protect(at(protected), FileRole::ComponentFolder).build().unwrap();
        let grant = Grant::none().with_folder(Folder::write(&format!("{}:/w", at(granted).display())).unwrap());
        host.load(Load::path(at("it.wasm")).grant(grant.unwrap())).await.unwrap();
        let work = Work { root, host };
        if protected == "later" {
            for (tool, arguments) in renames("later").into_iter().filter(|(tool, _)| !tool.starts_with("un")) {
                work.refused(tool, arguments).await;
            }
            continue;
        }
        let create = |path: &str| ("write", on(path, json!({"how": CREATE, "offset": 0, "size": 9, "times": 1})));
        for name in ["new.wasm", "NEW.WASM", ".new.wasm.x1y2"] {
            let path = format!("{below}{name}");
            let taken = renames(&path).into_iter().filter(|(tool, _)| !matches!(*tool, "unlink" | "rmdir"));
            for (tool, arguments) in taken.chain([create(&path)]) {
                let said = work.refused(tool, arguments.clone()).await;
                assert!(said.contains("which no tool may change"), "{protected} {tool} {arguments}: {said}");
            }
        }
        let path = format!("{below}there.wasm");
        for (tool, arguments) in writes(&path).into_iter().chain(renames(&path)) {
            if arguments["by-path"] != 0 {
                work.refused(tool, arguments).await;
            }
        }
        assert_eq!(std::fs::read_to_string(&there).unwrap(), "as it was");
        work.works(
            "write",
            on(&format!("{below}notes.txt"), json!({"how": CREATE, "offset": 0, "size": 9, "times": 1})),
        )
        .await;
        if granted == "." && protected != "." {
            work.refused("rename", on("tools", json!({"to": 0, "new": "moved"}))).await;
        }
    }
}

#[tokio::test]
async fn folders_and_links_on_the_way_stay_where_they_are() {
    let work = Work::new().await;
    let before = work.seen();
    for path in ["real", "real/sub", "way"] {
        for new in ["moved", "real/moved"] {
            work.refused("rename", on(path, json!({"to": 0, "new": new}))).await;
        }
        work.refused("rename", json!({"folder": 0, "path": "free", "to": 0, "new": path})).await;
        assert_eq!(work.seen(), before, "{path}");
    }
    let said = work.refused("unlink", on("way", json!({}))).await;
    assert!(said.contains("it leads to") && said.contains("which no tool may replace"), "{said}");
    assert_eq!(work.seen(), before);
}

#[tokio::test]
async fn a_secret_is_not_read_and_everything_else_is_usable() {
    let work = Work::new().await;
    for path in ["token", "token-link", "token-alias"] {
        for follow in [0, 1] {
            let result = call(&work.host, "read", on(path, json!({"follow": follow}))).await;
            assert!(!result.is_ok() && !format!("{result:?}").contains("as it was"), "{path}: {result:?}");
        }
        let said = work.refused("read", on(path, json!({"follow": 1}))).await;
        assert!(said.contains("a secret of the host, which no tool may read or change"), "{said}");
    }
    for path in ["fumehood.toml", "sneaky", "alias", "free"] {
        work.works("read", on(path, json!({"follow": 1}))).await;
    }
    for (tool, arguments) in writes("free") {
        work.works(tool, arguments).await;
    }
    work.works("write", on("new", json!({"how": CREATE, "offset": 0, "size": 9, "times": 1}))).await;
    work.works("rename", on("new", json!({"to": 0, "new": "real/sub/new"}))).await;
    work.works("link", on("real/sub/new", json!({"to": 0, "new": "second"}))).await;
    work.works("unlink", on("second", json!({}))).await;
    work.works("unlink", on("alias", json!({}))).await;
    work.works("mkdir", on("real/sub/folder", json!({}))).await;
}

#[tokio::test]
async fn a_file_that_is_replaced_meanwhile_stays_protected() {
    let work = Work::new().await;
    // As `approve` and editors do: another file under the same name.
    for name in ["fumehood.lock", "fumehood.toml"] {
        std::fs::write(work.path("new"), "another").unwrap();
        std::fs::rename(work.path("new"), work.path(name)).unwrap();
    }
    for path in ["fumehood.lock", "dangling", "fumehood.toml", "sneaky", "sneakier"] {
        for (tool, arguments) in writes(path).into_iter().filter(|(_, arguments)| arguments["by-path"] != 0) {
            work.refused(tool, arguments).await;
        }
    }
    for name in ["fumehood.lock", "fumehood.toml"] {
        assert_eq!(std::fs::read_to_string(work.path(name)).unwrap(), "another");
    }
}

#[tokio::test]
async fn a_link_that_is_exchanged_while_it_is_opened_wins_nothing() {
    const OPENS: u32 = 3_000;
    let work = Work::new().await;
    // Replaced, so that it has another inode than at the start and is recognized by its name only.
    std::fs::remove_file(work.path("fumehood.toml")).unwrap();
    std::fs::write(work.path("fumehood.toml"), "as it was").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let folder = work.root.path().to_owned();
    let swapping = std::thread::spawn(move || {
        let swap = |target: &Path| {
            symlink(target, folder.join("next")).unwrap();
            std::fs::rename(folder.join("next"), folder.join("swap")).unwrap();
        };
        while !stopped.load(Ordering::Relaxed) {
            swap(Path::new("free"));
            swap(Path::new("fumehood.toml"));
        }
    });
    for _ in 0..OPENS {
        let write = on("swap", json!({"how": TRUNCATE, "offset": 0, "size": 9, "times": 1}));
        let _either = call(&work.host, "write", write).await;
    }
    stop.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    assert_eq!(std::fs::read_to_string(work.path("fumehood.toml")).unwrap(), "as it was");
}
