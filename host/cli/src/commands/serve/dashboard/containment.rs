//! Runs of the self-test, and their reports, which are kept between runs of the server: a file for each, in the folder of the
//! command's state.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::boxed::BoxFuture;
use fumehood::http_api::dashboard::ports::{Containment, PortError, StoredReport};
use fumehood::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::process::Command;

/// Maximum size of a report that is read, in bytes.
const MAX_REPORT_BYTES: u64 = 4 << 20;

/// The self-test of this program, even if the file at its path has been replaced since.
pub(super) struct SelfTest {
    /// The folder of its reports. Without one, no report is stored.
    folder: Option<PathBuf>,
}

/// The content of a file.
#[derive(Serialize, Deserialize)]
struct ReportFile {
    /// The end of the run, in milliseconds since 1970.
    at: Timestamp,
    duration_ms: u64,
    /// The report of `fumehood selftest --json`.
    report: Box<RawValue>,
}

impl SelfTest {
    /// Creates a self-test with its reports in a folder.
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }
}

/// Returns the files of reports, the newest first: their names begin with the time.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_report = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_report).collect();
    files.sort_unstable();
    files.reverse();
    files
}

fn write(folder: &Path, report: StoredReport, max: usize) -> Result<()> {
    let StoredReport { at, duration, text } = report;
    fumehood_platform::private::create_folders(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let text = serde_json::to_string(&ReportFile { at, duration_ms, report: RawValue::from_string(text)? })?;
    let path = folder.join(format!("{:020}.json", at.0));
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    for old in files(folder).into_iter().skip(max) {
        let _gone = std::fs::remove_file(old);
    }
    Ok(())
}

/// Reads a report; `None` of a file that is none.
fn read(path: &Path) -> Option<StoredReport> {
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(MAX_REPORT_BYTES).read_to_string(&mut text).ok()?;
    let ReportFile { at, duration_ms, report } = serde_json::from_str(&text).ok()?;
    Some(StoredReport { at, duration: Duration::from_millis(duration_ms), text: report.get().to_owned() })
}

impl Containment for SelfTest {
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

    fn load(&self, max: usize) -> Vec<StoredReport> {
        let files = self.folder.as_deref().map(files).unwrap_or_default();
        files.iter().take(max).filter_map(|path| read(path)).collect()
    }

    fn store(&self, report: StoredReport, max: usize) -> Result<(), PortError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        write(folder, report, max).map_err(|error| PortError(format!("{error:#}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report_at(at: u64) -> StoredReport {
        StoredReport { at: Timestamp(at), duration: Duration::from_secs(60), text: format!(r#"{{"modes": [{at}]}}"#) }
    }

    #[test]
    fn the_newest_reports_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let reports = SelfTest::new(Some(folder.path().join("selftest")));
        assert_eq!(reports.load(9), []);
        for at in [7, 100, 20] {
            reports.store(report_at(at), 2).unwrap();
        }
        assert_eq!(reports.load(9), [report_at(100), report_at(20)]);
        std::fs::write(folder.path().join("selftest").join("99999999999999999999.json"), "{").unwrap();
        assert_eq!(reports.load(2), [report_at(100)], "what cannot be read is left out");
        let in_a_file = SelfTest::new(Some(folder.path().join("selftest/00000000000000000100.json/in")));
        assert!(in_a_file.store(report_at(1), 2).unwrap_err().0.contains("cannot create"));
    }
}
