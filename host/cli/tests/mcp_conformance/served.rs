//! `fumehood serve mcp`, running.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::tools::root;

/// The command under test.
pub(crate) const FUMEHOOD: &str = env!("CARGO_BIN_EXE_fumehood");

/// One of the example components.
pub(crate) fn example(name: &str) -> PathBuf {
    root().join(format!("example-tools/dist/{name}.wasm"))
}

/// A server over HTTP. Dropping it ends it.
pub(crate) struct Served {
    child: Child,
    folder: tempfile::TempDir,
    pub(crate) url: String,
}

impl Served {
    /// Serves the fixture of the suite, under the names that the suite knows.
    pub(crate) fn fixture() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(FUMEHOOD)
            .args(["serve", "mcp", "--short-names", "--http", "127.0.0.1:0", "--no-auth"])
            .arg(example("mcp-conformance"))
            .current_dir(folder.path())
            .env("FUMEHOOD_CACHE_DIR", folder.path().join("cache"))
            .env_remove("FUMEHOOD_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = loop {
            let line = lines.next().expect("it ended without a word about its address").unwrap();
            if let Some((_, url)) = line.split_once("tools at ") {
                break url.trim().to_owned();
            }
        };
        // Whatever else it says is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, folder, url }
    }

    /// A folder that goes away with the server.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
