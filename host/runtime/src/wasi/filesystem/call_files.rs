//! The open files of one call, and the limits on their number.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use wasmtime_wasi::filesystem::WasiFilesystemCtx;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use super::attempt::Attempt;
use super::folder::{OpenFolder, OpenFolders};
use super::resolve::Base;
use super::scratch::Scratch;
use crate::engine::file_pool::{FilePool, OpenSlot};
use crate::wasi::HostFailure;
use crate::wasi::refusals::Refusals;

/// Maximum number of files, folders and listings that one call holds open at once.
pub(super) const MAX_OPEN: usize = 64;
/// Maximum number of file streams that one call holds at once: each may buffer a part of a file in the host.
const MAX_STREAMS: usize = 64;
/// Maximum size of that part: wasmtime reads and writes files in pieces of 64 KiB.
const STREAM_BUFFER_BYTES: usize = 64 << 10;
/// Maximum number of names that one call lists.
pub(super) const MAX_LISTED_NAMES: u64 = 100_000;

/// The files of one call, created when its guest first uses them.
pub(crate) struct CallFiles {
    /// Open files and folders by the number of their handle.
    open: HashMap<u32, OpenFile>,
    /// The number of open ones: handles, and streams that have outlived theirs.
    count: Arc<AtomicUsize>,
    streams: Arc<AtomicUsize>,
    /// The number of names that were listed.
    pub(super) listed: Arc<AtomicU64>,
    pub(super) refusals: Refusals,
    pub(super) granted: Arc<OpenFolders>,
    /// An empty context, needed only to call wasmtime's own functions.
    pub(super) wasi: WasiFilesystemCtx,
    scratch: Option<Scratch>,
}

/// One open file or folder.
#[derive(Clone)]
pub(super) struct OpenFile {
    pub(super) file: Arc<File>,
    pub(super) is_dir: bool,
    /// The path as the guest sees it.
    pub(super) path: Arc<str>,
    pub(super) folder: Arc<OpenFolder>,
    /// `None` for the granted folders themselves, which are open in any case. Dropped after the file.
    pub(super) slot: Option<Arc<Slot>>,
}

impl OpenFile {
    /// Returns the open folder as one that paths are resolved beneath.
    pub(super) fn base(&self) -> Base<'_> {
        Base { folder: &self.file, resolver: self.folder.resolver }
    }
}

/// A permit to hold something open, released on drop.
pub(super) struct Slot {
    count: Arc<AtomicUsize>,
    /// The folder whose account counts the open file.
    folder: Option<Arc<OpenFolder>>,
    _shared_slot: OpenSlot,
}

impl CallFiles {
    pub(crate) fn new(granted: &Arc<OpenFolders>, refusals: &Refusals) -> Self {
        Self {
            open: HashMap::new(),
            count: Arc::default(),
            streams: Arc::default(),
            listed: Arc::default(),
            refusals: refusals.clone(),
            granted: Arc::clone(granted),
            wasi: WasiFilesystemCtx::default(),
            scratch: None,
        }
    }

    /// Returns an empty set of open files with the same limits and counts.
    pub(super) fn share(&self) -> Self {
        Self {
            open: HashMap::new(),
            count: Arc::clone(&self.count),
            streams: Arc::clone(&self.streams),
            listed: Arc::clone(&self.listed),
            refusals: self.refusals.clone(),
            granted: Arc::clone(&self.granted),
            wasi: WasiFilesystemCtx::default(),
            scratch: None,
        }
    }

    pub(super) fn pool(&self) -> &FilePool {
        &self.granted.pool
    }

    /// Returns the granted folders and the scratch space, which is created on first use.
    pub(super) fn folders(&mut self) -> Result<Vec<Arc<OpenFolder>>, HostFailure> {
        let mut folders = self.granted.folders.clone();
        if let Some(quota) = self.granted.scratch {
            if self.scratch.is_none() {
                self.scratch = Some(Scratch::create(quota, &self.granted.scratch_root, &self.granted.removals)?);
            }
            folders.extend(self.scratch.as_ref().map(|scratch| Arc::clone(scratch.folder())));
        }
        Ok(folders)
    }

    /// Returns the size of the buffers of all streams, as if they were full.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.streams.load(Ordering::Relaxed).saturating_mul(STREAM_BUFFER_BYTES)
    }

    pub(super) fn insert(&mut self, handle: u32, open: OpenFile) {
        self.open.insert(handle, open);
    }

    pub(super) fn remove(&mut self, handle: u32) {
        self.open.remove(&handle);
    }

    pub(super) fn get(&self, handle: u32) -> FsResult<&OpenFile> {
        self.open.get(&handle).ok_or_else(|| ErrorCode::BadDescriptor.into())
    }

    /// Acquires a permit to open a file or folder.
    pub(super) fn acquire_slot(&self, folder: &Arc<OpenFolder>, attempt: &Attempt) -> FsResult<Slot> {
        let shared_slot = self.pool().open_slot().ok_or(ErrorCode::Busy)?;
        // Only this call changes the count, and one thread runs it.
        if self.count.load(Ordering::Relaxed) >= MAX_OPEN {
            return Err(attempt.exhausted_error(format!("it may have at most {MAX_OPEN} open files and folders")));
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(ledger) = &folder.ledger {
            ledger.add_open();
        }
        Ok(Slot { count: Arc::clone(&self.count), folder: Some(Arc::clone(folder)), _shared_slot: shared_slot })
    }
}

/// A permit to hold a stream, released on drop.
pub(super) struct StreamSlot(Arc<AtomicUsize>);

impl CallFiles {
    /// Acquires a permit to hold one more stream.
    pub(super) fn acquire_stream_slot(&self, attempt: &Attempt) -> FsResult<StreamSlot> {
        if self.streams.load(Ordering::Relaxed) >= MAX_STREAMS {
            return Err(attempt.exhausted_error(format!("it may have at most {MAX_STREAMS} open file streams")));
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
    /// Stops counting an open file in the folder's account: what was opened is a folder, which takes up no bytes.
    pub(super) fn uncount_folder(&mut self) {
        if let Some(ledger) = self.folder.take().as_ref().and_then(|folder| folder.ledger.as_ref()) {
            ledger.remove_open();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.uncount_folder();
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
