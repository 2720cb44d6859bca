//! What a guest wanted to do with a file, and the words for why it may not.

use fumehood_core::permission::files::QuotaExceeded;
use fumehood_core::permission::{Power, Refusal};
use rustix::fs::FileType;
use wasmtime_wasi::p2::FsError;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use super::ledger::Unwritten;
use super::names::Unchanged;
use super::resolve::Failure;
use crate::capability::refusals::Refusals;
use crate::outcome::cut_to;

/// The longest path that is repeated, in bytes.
const TRIED_BYTES: usize = 256;

/// One thing that a guest wants to do, so that it can be named if it is refused.
#[derive(Clone)]
pub(super) struct Attempt {
    /// `write to`, `create the folder`.
    verb: &'static str,
    /// As the guest sees it.
    path: String,
    refusals: Refusals,
}

impl Attempt {
    pub(super) fn new(verb: &'static str, path: String, refusals: &Refusals) -> Self {
        Self { verb, path, refusals: refusals.clone() }
    }

    fn refusal(&self, because: String, allow: Option<String>) -> Refusal {
        Refusal { power: Power::Files, tried: self.tried(), because, allow }
    }

    fn tried(&self) -> String {
        format!("{} {}", self.verb, cut_to(&self.path, TRIED_BYTES))
    }

    fn refuse(&self, because: impl Into<String>, allow: Option<String>) -> FsError {
        self.refusals.add(self.refusal(because.into(), allow));
        ErrorCode::NotPermitted.into()
    }

    /// The folder is there for reading only.
    pub(super) fn read_only(&self, write_line: Option<String>) -> FsError {
        self.refuse("the folder is granted for reading only", write_line)
    }

    /// Some allowance is used up.
    pub(super) fn exhausted(&self, because: impl Into<String>) -> FsError {
        let tried = self.tried();
        self.refusals.used_up(format!("files: {tried} went beyond an allowance: {}", because.into()));
        ErrorCode::Quota.into()
    }

    pub(super) fn spent(&self, spent: QuotaExceeded) -> FsError {
        self.exhausted(spent.to_string())
    }

    pub(super) fn path(&self, failure: Failure) -> FsError {
        match failure {
            Failure::System(errno) => std::io::Error::from(errno).into(),
            Failure::Outside => self.refuse("it leads out of the folder that was granted", None),
            Failure::Special(kind) => {
                self.refuse(format!("it is {}, and only files and folders are opened", name_of(kind)), None)
            }
        }
    }

    pub(super) fn unwritten(&self, unwritten: Unwritten) -> FsError {
        match unwritten {
            Unwritten::QuotaExceeded(spent) => self.spent(spent),
            Unwritten::System(error) => error.into(),
        }
    }

    pub(super) fn unchanged(&self, unchanged: Unchanged) -> FsError {
        match unchanged {
            Unchanged::Path(failure) => self.path(failure),
            Unchanged::Unwritten(unwritten) => self.unwritten(unwritten),
            Unchanged::Link => {
                self.refuse("a link may only point to what is beside it or below: no `..`, nothing absolute", None)
            }
            Unchanged::Protected(protection) => self.refuse(protection.to_string(), None),
        }
    }

    /// What wasmtime's own functions say. They call it not permitted if a path leads outside.
    pub(super) fn delegated(&self, error: FsError) -> FsError {
        match error.downcast_ref() {
            Some(ErrorCode::NotPermitted) => {
                self.refuse("it leads out of the folder that was granted, or the system does not permit it", None)
            }
            _ => error,
        }
    }
}

/// A tool without folders finds none to open anything in, so that it never comes to an attempt.
pub(super) fn no_folder() -> Refusal {
    Refusal {
        power: Power::Files,
        tried: "look for its folders".to_owned(),
        because: "this tool was granted no folder".to_owned(),
        allow: Power::Files.example().map(str::to_owned),
    }
}

fn name_of(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something special",
    }
}
