//! An attempted file operation of a guest, and the refusals and error codes for it.

use cap_fs_ext::FileTypeExt as _;
use cap_std::fs::FileType;
use fumehood_core::policy::permission::files::QuotaExceeded;
use fumehood_core::policy::permission::{Power, Refusal};
use wasmtime_wasi::p2::FsError;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use super::ledger::WriteError;
use super::names::ChangeError;
use super::resolve::ResolveError;
use crate::wasi::guest_output::cut_to;
use crate::wasi::refusals::Refusals;

/// Maximum length of a path in a refusal.
const MAX_PATH_BYTES: usize = 256;

/// One operation that a guest attempts, described for the case that it is refused.
#[derive(Clone)]
pub(super) struct Attempt {
    /// A phrase such as `write to` or `create the folder`.
    verb: &'static str,
    /// The path as the guest sees it.
    path: String,
    refusals: Refusals,
}

impl Attempt {
    pub(super) fn new(verb: &'static str, path: String, refusals: &Refusals) -> Self {
        Self { verb, path, refusals: refusals.clone() }
    }

    fn refusal(&self, because: String, allow: Option<String>) -> Refusal {
        Refusal { power: Power::Files, tried: self.describe(), because, allow }
    }

    fn describe(&self) -> String {
        format!("{} {}", self.verb, cut_to(&self.path, MAX_PATH_BYTES))
    }

    fn refuse(&self, because: impl Into<String>, allow: Option<String>) -> FsError {
        self.refusals.add(self.refusal(because.into(), allow));
        ErrorCode::NotPermitted.into()
    }

    /// Refuses to change a folder that was granted for reading only.
    pub(super) fn read_only_error(&self, write_line: Option<String>) -> FsError {
        self.refuse("the folder is granted for reading only", write_line)
    }

    /// Records that an allowance is used up.
    pub(super) fn exhausted_error(&self, because: impl Into<String>) -> FsError {
        let tried = self.describe();
        self.refusals.add_exhausted(format!("files: {tried} exceeded a limit: {}", because.into()));
        ErrorCode::Quota.into()
    }

    pub(super) fn spent_error(&self, spent: QuotaExceeded) -> FsError {
        self.exhausted_error(spent.to_string())
    }

    pub(super) fn resolve_error(&self, error: ResolveError) -> FsError {
        match error {
            ResolveError::System(code) => code.into(),
            ResolveError::Outside => self.refuse("it leads out of the folder that was granted", None),
            ResolveError::Special(kind) => {
                self.refuse(format!("it is {}, but only files and folders can be opened", file_type_name(kind)), None)
            }
        }
    }

    pub(super) fn write_error(&self, error: WriteError) -> FsError {
        match error {
            WriteError::QuotaExceeded(spent) => self.spent_error(spent),
            WriteError::System(error) => error.into(),
        }
    }

    pub(super) fn change_error(&self, error: ChangeError) -> FsError {
        match error {
            ChangeError::Path(error) => self.resolve_error(error),
            ChangeError::Write(error) => self.write_error(error),
            ChangeError::Link => self.refuse("a link may only point to a relative path without `..`", None),
            ChangeError::Protected(protection) => self.refuse(protection.to_string(), None),
        }
    }

    /// Converts an error of wasmtime's own functions, which return `NotPermitted` for a path that leads outside.
    pub(super) fn delegated_error(&self, error: FsError) -> FsError {
        match error.downcast_ref() {
            Some(ErrorCode::NotPermitted) => {
                self.refuse("it leads out of the folder that was granted, or the system does not permit it", None)
            }
            _ => error,
        }
    }
}

/// Returns the refusal of a tool without folders, which has none to attempt an operation in.
pub(crate) fn no_folder_refusal() -> Refusal {
    Refusal {
        power: Power::Files,
        tried: "opening a folder".to_owned(),
        because: "this tool was granted no folder".to_owned(),
        allow: Power::Files.example().map(str::to_owned),
    }
}

fn file_type_name(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something special",
    }
}
