//! Grants that cannot be enforced fail the load.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use fumehood::permission::files::{Access, Folder};
use fumehood::{Grant, Host, Load};
use fumehood_tests::component;

use super::place::load;

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
    check_parts(refused(read_grant(&at("missing"))).await, &["missing", "does not exist", "create it"]);
    check_parts(refused(read_grant("no-such-folder")).await, &["`no-such-folder` does not exist (at /"]);
    check_parts(refused(read_grant(&at("file"))).await, &["file", "is granted as a folder, but is not a folder"]);
    check_parts(refused(read_grant(&at("file/x"))).await, &["is granted as a folder, but is not a folder"]);
    check_parts(refused(read_grant(&at("loop"))).await, &["cannot open the granted folder", "symbolic links"]);
    check_parts(refused(read_grant("/")).await, &["root of the file system"]);
    check_parts(refused(read_grant("/usr/..")).await, &["root of the file system"]);
    check_parts(refused(read_grant("/proc")).await, &["is in /proc"]);
    check_parts(refused(read_grant("/proc/self/fd")).await, &["is in /proc"]);
    check_parts(refused(read_grant("/sys")).await, &["is in /sys"]);
    check_parts(refused(read_grant("/dev")).await, &["is in /dev"]);
    check_parts(refused(read_grant(&at("to-proc"))).await, &["to-proc", "is in /proc"]);
    let overlap = Grant::none()
        .with_folder(Folder::read(&format!("{}:/a", at("docs"))).unwrap())
        .and_then(|grant| grant.with_folder(Folder::write(&format!("{}:/b", at("to-sub"))).unwrap()));
    check_parts(refused(overlap).await, &["to-sub", "inside it", "granted for writing"]);
}

fn read_grant(path: &str) -> Result<Grant, impl std::fmt::Debug> {
    Grant::none().with_folder(Folder::read(&format!("{path}:/x")).unwrap())
}

fn check_parts(said: String, says: &[&str]) {
    for part in says {
        assert!(said.contains(part), "{part:?} is missing in: {said}");
    }
}

#[tokio::test]
async fn the_hosts_own_folders_are_never_granted() {
    let root = tempfile::tempdir().unwrap();
    let private = |name: &str| {
        let path = root.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let cache = private("cache/code");
    let state = private("state");
    let docs = private("docs");
    let cache = fumehood::CodeCache::open(cache.join("mine")).unwrap();
    let host = Host::builder().concurrency(4).code_cache(cache).own_folder(&state).build().unwrap();
    let load = |path: PathBuf| {
        let grant = Grant::none().with_folder(Folder::new(path, "/x", Access::Read).unwrap()).unwrap();
        host.load(Load::bytes("it", component("files").unwrap()).grant(grant))
    };
    for path in [state.clone(), state.join("../state"), root.path().to_owned(), root.path().join("cache")] {
        let error = load(path.clone()).await.map(|_| ()).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("which has files of the host"), "{path:?}: {cause}");
    }
    load(docs).await.unwrap();
}
