//! Listings of folders.

use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::filesystem::types::{DirectoryEntry, HostDirectoryEntryStream};
use wasmtime_wasi::p2::{FsResult, ReaddirIterator};

use super::call::MAX_LISTED_NAMES;
use super::listing::Listing;
use super::view::{FilesView, gone};

/// Converts the handle of a [`Listing`] into the type that the interface requires. They have only the number in common.
pub(super) fn as_iterator(listing: &Resource<Listing>) -> Resource<ReaddirIterator> {
    Resource::new_own(listing.rep())
}

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
                    return Err(attempt.exhausted(format!("one call may list {MAX_LISTED_NAMES} names and no more")));
                }
                return Ok(Some(entry?));
            }
            let Some(source) = listing.take_source() else {
                return Ok(None);
            };
            let batch = pool.run(move || source.read()).await.map_err(gone)?;
            self.table.get_mut(&handle)?.refill(batch);
        }
    }

    fn drop(&mut self, stream: Resource<ReaddirIterator>) -> wasmtime::Result<()> {
        self.table.delete(as_listing(&stream))?;
        Ok(())
    }
}
