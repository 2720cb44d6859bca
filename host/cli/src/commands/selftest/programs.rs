//! Cases that are programs of MCP servers: each tries in its jail what it was not granted.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::ProgramJailReport;
use tokio::time::timeout;

use super::runner::{Baseline, Finding};
use crate::args::JailArguments;
use crate::config::amount::{Bytes, Time};
use crate::config::mcp::ProgramLimitsSection;
use crate::jail;

/// Rows of docs/hostile-corpus.md.
const FILES_AND_PROCESSES: u8 = 87;
const RESOURCES: u8 = 89;
/// Maximum time of an attempt.
const MAX_TIME: Duration = Duration::from_secs(20);
/// Exit code of a shell whose attempt succeeded.
const SUCCEEDED: i32 = 99;
/// Exit codes of a program that a limit ended: 128 and the signal.
const CPU_TIME: i32 = 128 + 24;
const FILE_SIZE: i32 = 128 + 25;

/// An attack of a program.
struct ProgramCase {
    row: u8,
    what: &'static str,
    /// Text for a shell. `$KEY` is a file that it may not read, `$BESIDE` one that it may not create, and `$HOST` the process
    /// that started it.
    script: &'static str,
    /// The exit code; `None` for every code but that of success.
    expected: Option<i32>,
    /// True if an old kernel does not refuse it.
    needs_scopes: bool,
}

const fn case(row: u8, what: &'static str, script: &'static str, expected: Option<i32>) -> ProgramCase {
    ProgramCase { row, what, script, expected, needs_scopes: false }
}

const CASES: &[ProgramCase] = &[
    case(FILES_AND_PROCESSES, "read a key, as an MCP server", "cat \"$KEY\" && exit 99", None),
    case(FILES_AND_PROCESSES, "write beside a grant, as an MCP server", "echo x > \"$BESIDE\" && exit 99", None),
    case(
        FILES_AND_PROCESSES,
        "link a key into a grant, as an MCP server",
        "ln \"$KEY\" \"$HOME/key\" && exit 99",
        None,
    ),
    case(
        FILES_AND_PROCESSES,
        "read variables of the host, as an MCP server",
        "cat /proc/$HOST/environ && exit 99",
        None,
    ),
    ProgramCase {
        needs_scopes: true,
        ..case(FILES_AND_PROCESSES, "signal the host, as an MCP server", "kill -URG $HOST && exit 99", None)
    },
    case(RESOURCES, "spin, as an MCP server", "while :; do :; done", Some(CPU_TIME)),
    case(RESOURCES, "fill the disk, as an MCP server", "exec head -c 9000000 /dev/zero > \"$HOME/x\"", Some(FILE_SIZE)),
];

/// Runs every case.
///
/// # Errors
/// If a program cannot be started at all.
pub(super) async fn run_cases() -> Result<Vec<Finding>> {
    // A program has a `/tmp` of its own, where it would not find what it must not read.
    let home = tempfile::tempdir_in("/var/tmp").or_else(|_| tempfile::tempdir())?;
    let folder = home.path().canonicalize()?;
    std::fs::write(folder.join("key"), "key")?;
    let support = jail::probe()?;
    let mut findings = Vec::new();
    for case in CASES.iter().filter(|case| !case.needs_scopes || support.signals) {
        findings.push(run_case(case, &folder, support).await.with_context(|| format!("the case `{}`", case.what))?);
    }
    Ok(findings)
}

async fn run_case(case: &ProgramCase, folder: &Path, support: ProgramJailReport) -> Result<Finding> {
    let before = Baseline::measure();
    let text = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let options = JailArguments {
        env: vec![
            format!("KEY={}", text("key")),
            format!("BESIDE={}", text("beside")),
            format!("HOST={}", std::process::id()),
        ],
        limits: ProgramLimitsSection {
            cpu: Some(Time(Duration::from_secs(1))),
            file_size: Some(Bytes(1 << 20)),
            ..ProgramLimitsSection::default()
        },
        ..JailArguments::default()
    };
    let words = ["/bin/sh", "-c", case.script].map(str::to_owned);
    let section = options.section(&words, None)?;
    let launch = jail::sandbox(&section, &options, false)?.prepare()?;
    let mut command = jail::command(&section, &launch);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let ended = match timeout(MAX_TIME, child.wait()).await {
        Ok(status) => verdict(case, status?, folder, support),
        Err(_late) => {
            child.start_kill()?;
            Err("it was still running".to_owned())
        }
    };
    drop(launch);
    Ok(before.to_finding(case.row, case.what, 1, ended))
}

fn verdict(
    case: &ProgramCase,
    status: ExitStatus,
    folder: &Path,
    support: ProgramJailReport,
) -> Result<String, String> {
    let code = status.code().unwrap_or_default();
    if !support.files {
        return Err("the kernel has no Landlock".to_owned());
    }
    let is_contained = case.expected.map_or(code != SUCCEEDED && code != 127, |expected| code == expected);
    if is_contained && !folder.join("beside").exists() {
        Ok(format!("exit code {code}"))
    } else {
        Err(format!("exit code {code}"))
    }
}
