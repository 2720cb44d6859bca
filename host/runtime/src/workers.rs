//! Where the calls of a component run, and the program of worker processes.

use std::ffi::OsString;
use std::path::PathBuf;

/// Where the calls of a component run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// On threads of this process. The engine is the only wall.
    #[default]
    InProcess,
    /// In a worker process of its own, without files, network or privileges but what the component was granted.
    /// [`Workers`] says which program that is.
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
    /// A program of the same build as this one that calls [`crate::serve_worker`] first thing when it is given these arguments. The
    /// path counts from the root.
    pub fn program(path: impl Into<PathBuf>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { program: path.into(), args: args.into_iter().map(Into::into).collect(), is_jail_required: false }
    }

    /// This very program, which must call [`crate::serve_worker`] first thing when it is given these arguments.
    ///
    /// The program that is running is meant, even if its file is replaced meanwhile.
    pub fn this_program(args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self::program("/proc/self/exe", args)
    }

    /// Refuses to load components into workers where the kernel lacks Landlock or seccomp filters. Without this, such workers
    /// are processes of their own with what layers there are: see [`crate::Component::jail`].
    #[must_use]
    pub fn require_jail(mut self) -> Self {
        self.is_jail_required = true;
        self
    }
}
