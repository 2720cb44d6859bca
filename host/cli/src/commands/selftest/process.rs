//! What this process holds, as far as the system says.

use std::path::Path;

use serde::Serialize;

/// What the process holds at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct ResourceUsage {
    /// Bytes of memory.
    pub(super) resident: u64,
    /// Open files, sockets and the like.
    pub(super) descriptors: usize,
    pub(super) threads: usize,
}

/// Looks.
pub(super) fn held() -> ResourceUsage {
    ResourceUsage { resident: figure("VmRSS:"), descriptors: count("/proc/self/fd"), threads: count("/proc/self/task") }
}

/// Forgets the most memory that was held so far, so that [`peak`] tells of what comes. Where the system does not let it, the
/// peak is that of the whole run, which is never less.
pub(super) fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that was held, in bytes.
pub(super) fn peak() -> u64 {
    figure("VmHWM:")
}

fn figure(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let figure = status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix("kB"));
    figure.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or_default() * 1024
}

fn count(folder: impl AsRef<Path>) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}
