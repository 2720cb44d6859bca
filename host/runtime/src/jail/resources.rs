//! Resource limits of a jailed process.

use std::io;

use rustix::process::{Resource, Rlimit};

/// Limits that the kernel enforces on the process as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resources {
    /// Maximum writable memory, in bytes.
    pub(crate) data: u64,
    /// Maximum address space, in bytes; `None` for no limit.
    pub(crate) address_space: Option<u64>,
    /// Maximum CPU time of all threads together, in seconds; `None` for no limit.
    pub(crate) cpu_seconds: Option<u64>,
    /// Maximum size of a file that is written, in bytes; `None` for no limit.
    pub(crate) file_size: Option<u64>,
    /// Maximum number of open descriptors.
    pub(crate) descriptors: u64,
}

impl Resources {
    pub(super) fn limit(&self) -> io::Result<()> {
        set(Resource::Data, self.data, self.data)?;
        set(Resource::Core, 0, 0)?;
        set(Resource::Nofile, self.descriptors, self.descriptors)?;
        if let Some(bytes) = self.address_space {
            set(Resource::As, bytes, bytes)?;
        }
        if let Some(bytes) = self.file_size {
            set(Resource::Fsize, bytes, bytes)?;
        }
        if let Some(seconds) = self.cpu_seconds {
            // The signal of the soft limit (`SIGXCPU`) identifies the reason; the hard limit kills.
            set(Resource::Cpu, seconds, seconds.saturating_add(1))?;
        }
        Ok(())
    }
}

/// Sets a limit, but never raises one that is in force.
fn set(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let now = rustix::process::getrlimit(resource);
    let at_most = |wanted: u64| Some(now.maximum.map_or(wanted, |most| most.min(wanted)));
    rustix::process::setrlimit(resource, Rlimit { current: at_most(soft), maximum: at_most(hard) })?;
    Ok(())
}
