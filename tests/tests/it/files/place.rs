//! Two granted folders with canaries beside them, and a host with one tool that sees them.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fumehood::permission::files::{Access, Folder, Quota};
use fumehood::{Call, CallResult, Grant, Host, Load};
use fumehood_tests::component;
use serde_json::Value;

pub(crate) const CANARY: &str = "CANARY: nobody may read this";

/// Flags of an attempt to open something.
pub(crate) const CREATE: u32 = 1;
pub(crate) const TRUNCATE: u32 = 8;
pub(crate) const READ: u32 = 1;
pub(crate) const WRITE: u32 = 2;

/// The folders `read` (folder 0) and `write` (folder 1), and files beside them that no tool may reach.
pub(crate) struct Place {
    pub(crate) root: tempfile::TempDir,
    pub(crate) host: Host,
}

impl Place {
    pub(crate) async fn new() -> Self {
        Self::with_quota(Quota::default()).await
    }

    pub(crate) async fn with_quota(quota: Quota) -> Self {
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

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> CallResult {
        call(&self.host, tool, arguments).await
    }

    /// Calls a tool that has to fail, and returns the error code that it received.
    pub(crate) async fn code(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        let error = result.error().unwrap_or_else(|| panic!("{tool} should fail: {result:?}"));
        error.message.trim_matches('"').to_owned()
    }

    pub(crate) async fn works(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        result.text().unwrap_or_else(|| panic!("{tool} should work: {result:?}")).into_owned()
    }

    /// Returns the state of everything that no tool may change.
    pub(crate) fn untouchable(&self) -> BTreeMap<PathBuf, String> {
        let mut seen = BTreeMap::new();
        for folder in ["outside", "read"] {
            look(&self.path(folder), &mut seen);
        }
        seen.insert(self.path("canary"), std::fs::read_to_string(self.path("canary")).unwrap());
        seen.insert(self.path("."), std::fs::read_dir(self.path(".")).unwrap().count().to_string());
        seen
    }
}

/// Collects kind, mode, number of links, time of modification and content of everything in a folder.
pub(crate) fn look(path: &Path, seen: &mut BTreeMap<PathBuf, String>) {
    let metadata = std::fs::symlink_metadata(path).unwrap();
    let content = if metadata.is_file() {
        std::fs::read_to_string(path).unwrap()
    } else if metadata.is_symlink() {
        std::fs::read_link(path).unwrap().display().to_string()
    } else {
        String::new()
    };
    let kind = metadata.file_type();
    let mode = metadata.mode();
    let links = metadata.nlink();
    seen.insert(path.to_owned(), format!("{kind:?} {mode} {links} {:?} {content}", metadata.modified().unwrap()));
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            look(&entry.unwrap().path(), seen);
        }
    }
}

pub(crate) async fn load(grant: Grant) -> Result<Host, fumehood::LoadError> {
    let host = Host::builder().concurrency(8).build().unwrap();
    host.load(Load::bytes("it", component("files").unwrap()).grant(grant)).await?;
    Ok(host)
}

pub(crate) async fn call(host: &Host, tool: &str, arguments: Value) -> CallResult {
    host.call(Call::new(format!("it__{tool}"), arguments)).await
}

/// Counts bytes and names in a folder, without following links.
pub(crate) fn usage(path: &Path) -> (u64, u64) {
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
