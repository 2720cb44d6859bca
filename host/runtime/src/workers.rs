//! Where the calls of a component run, and the program of worker processes.

use std::ffi::OsString;
use std::path::PathBuf;

/// The process that runs the calls of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Threads of this process. The engine is the only layer of isolation.
    #[default]
    InProcess,
    /// A worker process of its own, without files, network or privileges except those that the component was granted.
    /// [`Workers`](crate::Workers) names its program.
    Process,
}

/// The program of worker processes.
#[derive(Debug, Clone)]
pub struct Workers {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) is_jail_required: bool,
}

impl Workers {
    /// Uses a program of the same build as this one that calls [`crate::serve_worker`] first thing when it is given these
    /// arguments. The path must be absolute.
    pub fn program(path: impl Into<PathBuf>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { program: path.into(), args: args.into_iter().map(Into::into).collect(), is_jail_required: false }
    }

    /// Uses the running program, which must call [`crate::serve_worker`] first thing when it is given these arguments.
    ///
    /// Workers run the same program even if its file is replaced meanwhile.
    pub fn this_program(args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self::program("/proc/self/exe", args)
    }

    /// Refuses to load components into workers where the kernel lacks Landlock or seccomp filters. By default, such workers are
    /// processes of their own with the layers that exist: see [`crate::Component::jail`].
    #[must_use]
    pub fn require_jail(mut self) -> Self {
        self.is_jail_required = true;
        self
    }
}
