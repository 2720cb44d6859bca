//! What one call has open, and how much of it there may be.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wasmtime_wasi::filesystem::WasiFilesystemCtx;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use super::folder::{OpenFolder, OpenFolders};
use super::refuse::Attempt;
use super::scratch::Scratch;
use crate::capability::refusals::Refusals;
use crate::file_pool::{FilePool, OpenSlot};
use crate::host_failure::HostFailure;

/// Files, folders and listings that one call may hold open at once.
pub(super) const MOST_OPEN: usize = 64;
/// Streams from and to files that one call may hold at once: each may keep a piece of a file in the host.
const MOST_STREAMS: usize = 64;
/// Names that one call may list.
pub(super) const MOST_LISTED: u64 = 100_000;

/// The files of one call, made when its guest first uses them.
pub(crate) struct CallFiles {
    /// By the number of their handle.
    open: HashMap<u32, Open>,
    /// How many are open: handles, and streams that have outlived theirs.
    count: Arc<AtomicUsize>,
    streams: Arc<AtomicUsize>,
    pub(super) listed: u64,
    pub(super) refusals: Refusals,
    pub(super) granted: Arc<OpenFolders>,
    /// Empty: it is only needed to call wasmtime's own functions.
    pub(super) wasi: WasiFilesystemCtx,
    scratch: Option<Scratch>,
}

/// One open file or folder.
#[derive(Clone)]
pub(super) struct Open {
    pub(super) file: Arc<File>,
    pub(super) is_dir: bool,
    /// As the guest sees it.
    pub(super) path: Arc<str>,
    pub(super) folder: Arc<OpenFolder>,
    /// `None` for the granted folders themselves, which are open anyhow. Dropped after the file.
    pub(super) slot: Option<Arc<Slot>>,
}

/// The right to hold something open, given back when it is dropped.
pub(super) struct Slot {
    count: Arc<AtomicUsize>,
    /// The folder whose account has to know that one of its files is open.
    folder: Option<Arc<OpenFolder>>,
    _of_all: OpenSlot,
}

impl CallFiles {
    pub(crate) fn new(granted: &Arc<OpenFolders>, refusals: &Refusals) -> Self {
        Self {
            open: HashMap::new(),
            count: Arc::default(),
            streams: Arc::default(),
            listed: 0,
            refusals: refusals.clone(),
            granted: Arc::clone(granted),
            wasi: WasiFilesystemCtx::default(),
            scratch: None,
        }
    }

    pub(super) fn pool(&self) -> &FilePool {
        &self.granted.pool
    }

    /// The granted folders, with the scratch space, which is made now if it was not before.
    pub(super) fn folders(&mut self) -> Result<Vec<Arc<OpenFolder>>, HostFailure> {
        let mut folders = self.granted.folders.clone();
        if let Some(quota) = self.granted.scratch {
            if self.scratch.is_none() {
                self.scratch = Some(Scratch::make(quota, &self.granted.scratch_root, &self.granted.pool)?);
            }
            folders.extend(self.scratch.as_ref().map(|scratch| Arc::clone(scratch.folder())));
        }
        Ok(folders)
    }

    /// Takes the scratch space away, to be removed.
    pub(crate) fn take_scratch(&mut self) -> Option<Scratch> {
        self.scratch.take()
    }

    pub(super) fn insert(&mut self, handle: u32, open: Open) {
        self.open.insert(handle, open);
    }

    pub(super) fn remove(&mut self, handle: u32) {
        self.open.remove(&handle);
    }

    pub(super) fn get(&self, handle: u32) -> FsResult<&Open> {
        self.open.get(&handle).ok_or_else(|| ErrorCode::BadDescriptor.into())
    }

    /// Room for one more open thing in a folder.
    pub(super) fn slot(&self, folder: &Arc<OpenFolder>, attempt: &Attempt) -> FsResult<Slot> {
        let of_all = self.pool().open_slot().ok_or(ErrorCode::Busy)?;
        // Only this call counts here, and it does one thing at a time.
        if self.count.load(Ordering::Relaxed) >= MOST_OPEN {
            return Err(
                attempt.exhausted(format!("it may hold {MOST_OPEN} files and folders open at once and no more"))
            );
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(ledger) = &folder.ledger {
            ledger.opened();
        }
        Ok(Slot { count: Arc::clone(&self.count), folder: Some(Arc::clone(folder)), _of_all: of_all })
    }
}

/// The right to hold one more stream, given back when it is dropped.
pub(super) struct StreamSlot(Arc<AtomicUsize>);

impl CallFiles {
    /// Room for one more stream.
    pub(super) fn stream_slot(&self, attempt: &Attempt) -> FsResult<StreamSlot> {
        if self.streams.load(Ordering::Relaxed) >= MOST_STREAMS {
            return Err(attempt.exhausted(format!("it may hold {MOST_STREAMS} streams of files at once and no more")));
        }
        self.streams.fetch_add(1, Ordering::Relaxed);
        Ok(StreamSlot(Arc::clone(&self.streams)))
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Slot {
    /// It holds open a folder, which takes up no room that could be given back.
    pub(super) fn holds_a_folder(&mut self) {
        if let Some(ledger) = self.folder.take().as_ref().and_then(|folder| folder.ledger.as_ref()) {
            ledger.closed();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.holds_a_folder();
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
