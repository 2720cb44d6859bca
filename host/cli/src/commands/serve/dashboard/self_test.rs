//! The self-test in a process of its own: this very program with the command `selftest`.

use std::process::Stdio;

use fumehood::boxed::BoxFuture;
use fumehood::http_api::dashboard::ports::{ContainmentTest, PortError};
use tokio::process::Command;

/// Runs `selftest --json` of this program, even if the file at its path has been replaced since.
pub(super) struct SelfTest;

impl ContainmentTest for SelfTest {
    fn run(&self) -> BoxFuture<'static, Result<String, PortError>> {
        Box::pin(async {
            let mut command = Command::new("/proc/self/exe");
            command.args(["selftest", "--json"]).stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
            let failed = |error: std::io::Error| PortError(format!("the self-test did not start: {error}"));
            let output = command.output().await.map_err(failed)?;
            if output.stdout.is_empty() {
                let said = String::from_utf8_lossy(&output.stderr);
                let message = format!("the self-test ended with {} and no report: {}", output.status, said.trim());
                return Err(PortError(message));
            }
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        })
    }
}
