//! Listings of folders, read in batches.

use std::collections::VecDeque;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorType, DirectoryEntry, ErrorCode, HostDirectoryEntryStream,
};
use wasmtime_wasi::p2::{FsResult, ReaddirIterator};

use super::attempt::Attempt;
use super::call_files::{MAX_LISTED_NAMES, Slot};
use super::view::{FilesView, shut_down_error};

/// Maximum number of names in a batch.
const MAX_BATCH_NAMES: usize = 128;

/// An open listing.
pub(super) struct Listing {
    ready: VecDeque<Result<DirectoryEntry, ErrorCode>>,
    /// `None` while a batch is read, and after the end.
    source: Option<Source>,
    pub(super) attempt: Attempt,
}

/// The open folder that names are read from.
pub(super) struct Source {
    dir: Dir,
    /// Dropped after the folder is closed.
    _slot: Arc<Slot>,
}

/// A batch of names, and the source of further ones.
pub(super) struct Batch {
    names: VecDeque<Result<DirectoryEntry, ErrorCode>>,
    source: Option<Source>,
}

impl Listing {
    pub(super) fn new(dir: Dir, slot: Slot, attempt: Attempt) -> Self {
        Self { ready: VecDeque::new(), source: Some(Source { dir, _slot: Arc::new(slot) }), attempt }
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
            match self.dir.read() {
                None => return Batch { names, source: None },
                Some(Err(errno)) => {
                    names.push_back(Err(std::io::Error::from(errno).into()));
                    return Batch { names, source: None };
                }
                Some(Ok(entry)) if matches!(entry.file_name().to_bytes(), b"." | b"..") => {}
                Some(Ok(entry)) => names.extend(self.entry(&entry).transpose()),
            }
        }
        Batch { names, source: Some(self) }
    }

    /// Converts an entry; `None` if it was removed meanwhile.
    fn entry(&self, entry: &rustix::fs::DirEntry) -> Result<Option<DirectoryEntry>, ErrorCode> {
        let kind = match entry.file_type() {
            // Not every file system provides the type here.
            FileType::Unknown => match self.stat_type(entry) {
                Err(Errno::NOENT) => return Ok(None),
                result => result.map_err(std::io::Error::from)?,
            },
            known => known,
        };
        let name = entry.file_name().to_str().map_err(|_| ErrorCode::IllegalByteSequence)?.to_owned();
        Ok(Some(DirectoryEntry { type_: to_descriptor_type(kind), name }))
    }

    fn stat_type(&self, entry: &rustix::fs::DirEntry) -> Result<FileType, Errno> {
        let stat = rustix::fs::statat(self.dir.fd()?, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }
}

fn to_descriptor_type(kind: FileType) -> DescriptorType {
    match kind {
        FileType::RegularFile => DescriptorType::RegularFile,
        FileType::Directory => DescriptorType::Directory,
        FileType::Symlink => DescriptorType::SymbolicLink,
        FileType::Fifo => DescriptorType::Fifo,
        FileType::Socket => DescriptorType::Socket,
        FileType::CharacterDevice => DescriptorType::CharacterDevice,
        FileType::BlockDevice => DescriptorType::BlockDevice,
        FileType::Unknown => DescriptorType::Unknown,
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
                files.listed += 1;
                if files.listed > MAX_LISTED_NAMES {
                    return Err(
                        attempt.exhausted_error(format!("one call may list {MAX_LISTED_NAMES} names and no more"))
                    );
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
