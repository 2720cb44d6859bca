//! Listings of folders, read in batches.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;

use cap_fs_ext::FileTypeExt as _;
use cap_std::fs::{DirEntry, FileType, ReadDir};
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorType, DirectoryEntry, ErrorCode, HostDirectoryEntryStream,
};
use wasmtime_wasi::p2::{FsResult, ReaddirIterator};

use super::attempt::Attempt;
use super::call_files::{MAX_LISTED_NAMES, Slot};
use super::view::{FilesView, shut_down_error};
use crate::engine::file_pool::OpenSlot;

/// Maximum number of names in a batch.
const MAX_BATCH_NAMES: usize = 128;

/// Bytes of a batch, for names of maximum length and the buffer that the C library reads them into.
const BATCH_BYTES: usize = 96 << 10;
/// Bytes of a descriptor: its path in messages has 512 characters at most.
const DESCRIPTOR_BYTES: usize = 4 << 10;

/// An open listing.
pub(super) struct Listing {
    ready: VecDeque<Result<DirectoryEntry, ErrorCode>>,
    /// `None` while a batch is read, and after the end.
    source: Option<Source>,
    pub(super) attempt: Attempt,
}

/// The open folder that names are read from.
pub(super) struct Source {
    entries: ReadDir,
    /// Dropped after the folder is closed.
    _slots: (Slot, OpenSlot),
}

/// A batch of names, and the source of further ones.
pub(super) struct Batch {
    names: VecDeque<Result<DirectoryEntry, ErrorCode>>,
    source: Option<Source>,
}

impl Listing {
    pub(super) fn new(entries: ReadDir, slots: (Slot, OpenSlot), attempt: Attempt) -> Self {
        Self { ready: VecDeque::new(), source: Some(Source { entries, _slots: slots }), attempt }
    }

    /// Takes the next name that was read already.
    pub(super) fn next(&mut self) -> Option<Result<DirectoryEntry, ErrorCode>> {
        self.ready.pop_front()
    }

    /// Takes the source of further names, if there may be any.
    pub(super) fn take_source(&mut self) -> Option<Source> {
        self.source.take()
    }

    pub(super) fn refill(&mut self, batch: Batch) {
        self.ready = batch.names;
        self.source = batch.source;
    }
}

impl Source {
    /// Reads one batch. Blocks.
    pub(super) fn read(mut self) -> Batch {
        let mut names = VecDeque::with_capacity(MAX_BATCH_NAMES);
        while names.len() < MAX_BATCH_NAMES {
            match self.entries.next() {
                None => return Batch { names, source: None },
                Some(Err(error)) => {
                    names.push_back(Err(error.into()));
                    return Batch { names, source: None };
                }
                Some(Ok(entry)) => names.extend(convert(&entry).transpose()),
            }
        }
        Batch { names, source: Some(self) }
    }
}

/// Returns the bytes behind a handle of `wasi:filesystem`, besides the buffers of streams.
pub(crate) fn entry_bytes(entry: &(dyn Any + Send)) -> usize {
    if entry.is::<Listing>() {
        return BATCH_BYTES;
    }
    if entry.is::<Descriptor>() { DESCRIPTOR_BYTES } else { 0 }
}

/// Converts an entry; `None` if it was removed meanwhile.
fn convert(entry: &DirEntry) -> Result<Option<DirectoryEntry>, ErrorCode> {
    let type_ = match to_descriptor_type(entry.file_type()?) {
        // Not every file system provides the type here.
        DescriptorType::Unknown => match entry.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            metadata => to_descriptor_type(metadata?.file_type()),
        },
        known => known,
    };
    let name = entry.file_name().into_string().map_err(|_| ErrorCode::IllegalByteSequence)?;
    Ok(Some(DirectoryEntry { type_, name }))
}

fn to_descriptor_type(kind: FileType) -> DescriptorType {
    match kind {
        kind if kind.is_file() => DescriptorType::RegularFile,
        kind if kind.is_dir() => DescriptorType::Directory,
        kind if kind.is_symlink() => DescriptorType::SymbolicLink,
        kind if kind.is_fifo() => DescriptorType::Fifo,
        kind if kind.is_socket() => DescriptorType::Socket,
        kind if kind.is_char_device() => DescriptorType::CharacterDevice,
        kind if kind.is_block_device() => DescriptorType::BlockDevice,
        _ => DescriptorType::Unknown,
    }
}

/// Converts the handle of a [`Listing`] into the type that the interface requires. They have only the number in common.
pub(super) fn as_iterator(listing: &Resource<Listing>) -> Resource<ReaddirIterator> {
    Resource::new_own(listing.rep())
}

/// Converts such a handle back.
fn as_listing(iterator: &Resource<ReaddirIterator>) -> Resource<Listing> {
    Resource::new_own(iterator.rep())
}

impl HostDirectoryEntryStream for FilesView<'_> {
    async fn read_directory_entry(&mut self, stream: Resource<ReaddirIterator>) -> FsResult<Option<DirectoryEntry>> {
        let handle = as_listing(&stream);
        let pool = self.files()?.pool().clone();
        loop {
            let listing = self.table.get_mut(&handle)?;
            if let Some(entry) = listing.next() {
                let attempt = listing.attempt.clone();
                let files = self.files()?;
                if files.listed.fetch_add(1, Ordering::Relaxed) >= MAX_LISTED_NAMES {
                    return Err(attempt.exhausted_error(format!("one call may list at most {MAX_LISTED_NAMES} names")));
                }
                return Ok(Some(entry?));
            }
            let Some(source) = listing.take_source() else {
                return Ok(None);
            };
            let batch = pool.run(move || source.read()).await.map_err(shut_down_error)?;
            self.table.get_mut(&handle)?.refill(batch);
        }
    }

    fn drop(&mut self, stream: Resource<ReaddirIterator>) -> wasmtime::Result<()> {
        self.table.delete(as_listing(&stream))?;
        Ok(())
    }
}
