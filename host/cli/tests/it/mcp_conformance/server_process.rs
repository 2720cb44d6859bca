//! `fumehood serve mcp`, running.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::tools::root;

/// The command under test.
pub(crate) const FUMEHOOD: &str = env!("CARGO_BIN_EXE_fumehood");

/// The resources, prompts and tasks that the suite requests.
const CONFIGURATION: &str = r#"
[jobs]
tools = ["*__slow_compute", "*__failing_job", "*__protocol_error_job"]
[limits]
deadline = "90s"
[knowledge.static-text]
description = "A text."
text = "This is the content of the static text resource."
uri = "test://static-text"
[knowledge.static-binary]
description = "A picture."
text = { file = "dot.png" }
mime = "image/png"
uri = "test://static-binary"
[knowledge.example-resource]
description = "What a prompt is about."
text = "Embedded resource content for testing."
uri = "test://example-resource"
[prompts.test_simple_prompt]
description = "A prompt."
text = "This is a simple prompt for testing."
[prompts.test_prompt_with_arguments]
description = "A prompt with arguments."
text = "Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"
[prompts.test_prompt_with_arguments.arguments]
arg1 = { description = "First test argument", required = true }
arg2 = { description = "Second test argument", required = true }
[prompts.test_prompt_with_embedded_resource]
description = "A prompt about a text."
knowledge = ["example-resource"]
text = "Please process the embedded resource {resourceUri} above."
[prompts.test_prompt_with_embedded_resource.arguments]
resourceUri = { description = "The address of the resource", required = true }
[prompts.test_prompt_with_image]
description = "A prompt about a picture."
knowledge = ["static-binary"]
text = "Please analyze the image above."
"#;
/// A picture of one point.
const DOT: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\x0f\0\x01\x01\x01\0\x18\xdd\x8d\xb0\0\0\0\0IEND\xaeB`\x82";

/// Returns the path of an example component.
pub(crate) fn example(name: &str) -> PathBuf {
    root().join(format!("example-tools/dist/{name}.wasm"))
}

/// A server over HTTP. It ends when this is dropped.
pub(crate) struct ServerProcess {
    child: Child,
    folder: tempfile::TempDir,
    pub(crate) url: String,
}

impl ServerProcess {
    /// Serves the fixture of the suite, under the names that the suite expects.
    pub(crate) fn fixture() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fumehood.toml");
        std::fs::write(&file, CONFIGURATION).unwrap();
        std::fs::write(folder.path().join("dot.png"), DOT).unwrap();
        Self::start(folder, &file, |command| command.arg("--short-names").arg(example("mcp-conformance")))
    }

    /// Serves the servers of a configuration.
    pub(crate) fn gateway(file: &Path) -> Self {
        Self::start(tempfile::tempdir().unwrap(), file, |command| command.args(["--servers", "--no-log"]))
    }

    fn start(folder: tempfile::TempDir, file: &Path, complete: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let mut command = Command::new(FUMEHOOD);
        command.arg("--config").arg(file).args(["serve", "mcp", "--listen", "127.0.0.1:0", "--no-auth"]);
        command
            .current_dir(folder.path())
            .env("FUMEHOOD_CACHE_DIR", folder.path().join("cache"))
            .env("XDG_STATE_HOME", folder.path().join("state"))
            .env_remove("FUMEHOOD_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = complete(&mut command).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = loop {
            let line = lines.next().expect("it ended without a word about its address").unwrap();
            if let Some((_, url)) = line.split_once("tools at ") {
                break url.trim().to_owned();
            }
        };
        // The rest of its output is read, so that it never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, folder, url }
    }

    /// Returns the folder of the server, which is removed with it.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
