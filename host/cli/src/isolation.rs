//! Isolation of tools: in this process, or in workers.

use fumehood::{HostBuilder, IsolationPolicy, Workers};

/// Name of the hidden command by which this program is a worker process.
pub(crate) const RUN_WORKER: &str = "run-worker";

/// The value of `--isolation`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Workers for components that are not approved.
    #[default]
    Auto,
    InProcess,
    Process,
    /// Workers, and only in a complete jail.
    ProcessRequired,
}

impl Mode {
    /// Reads `auto`, `in-process`, `process` or `process=required`.
    ///
    /// # Errors
    /// If it is something else.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "in-process" => Ok(Self::InProcess),
            "process" => Ok(Self::Process),
            "process=required" => Ok(Self::ProcessRequired),
            _ => Err("expected `auto`, `in-process`, `process` or `process=required`".to_owned()),
        }
    }

    /// Returns the name that [`Self::parse`] reads.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::InProcess => "in-process",
            Self::Process => "process",
            Self::ProcessRequired => "process=required",
        }
    }

    /// Applies the mode to the settings of a host.
    pub(crate) fn apply(self, builder: HostBuilder) -> HostBuilder {
        let workers = Workers::this_program([RUN_WORKER]);
        let (workers, policy) = match self {
            Self::Auto => (workers, IsolationPolicy::Unapproved),
            Self::InProcess => (workers, IsolationPolicy::Nothing),
            Self::Process => (workers, IsolationPolicy::Everything),
            Self::ProcessRequired => (workers.require_jail(), IsolationPolicy::Everything),
        };
        builder.workers(workers).isolation(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_by_name() {
        assert_eq!(Mode::parse("process=required"), Ok(Mode::ProcessRequired));
        assert_eq!(Mode::parse("in-process"), Ok(Mode::InProcess));
        assert!(Mode::parse("Process").unwrap_err().contains("`process=required`"));
    }
}
