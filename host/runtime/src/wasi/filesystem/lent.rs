//! Files that are lent to one asynchronous operation, while other operations of the call go on.

use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use super::call_files::{CallFiles, OpenFile};
use super::view::FilesView;
use crate::wasi::refusals::Refusals;

/// The open files of one operation, with a table of their own: an operation that waits cannot borrow those of its call. The limits
/// of the call count them.
pub(super) struct LentFiles {
    files: CallFiles,
    refusals: Refusals,
    table: ResourceTable,
}

impl FilesView<'_> {
    /// Returns a place for open files to be lent in.
    pub(super) fn lend(&mut self) -> FsResult<LentFiles> {
        let files = self.files()?.share();
        let refusals = files.refusals.clone();
        Ok(LentFiles { files, refusals, table: ResourceTable::new() })
    }

    /// Lends an open file, and returns its handle there.
    pub(super) fn lend_to(
        &mut self,
        lent: &mut LentFiles,
        handle: &Resource<Descriptor>,
    ) -> FsResult<Resource<Descriptor>> {
        let descriptor = self.table.get(handle)?.clone();
        let open = self.files()?.get(handle.rep())?.clone();
        lent.insert(descriptor, open)
    }

    /// Adds a file that an operation opened.
    pub(super) fn keep(&mut self, mut lent: LentFiles, handle: Resource<Descriptor>) -> FsResult<Resource<Descriptor>> {
        let open = lent.files.get(handle.rep())?.clone();
        let descriptor = lent.table.delete(handle)?;
        let kept = self.table.push(descriptor)?;
        self.files.as_deref_mut().ok_or(ErrorCode::BadDescriptor)?.insert(kept.rep(), open);
        Ok(kept)
    }
}

impl LentFiles {
    fn insert(&mut self, descriptor: Descriptor, open: OpenFile) -> FsResult<Resource<Descriptor>> {
        let handle = self.table.push(descriptor)?;
        self.files.insert(handle.rep(), open);
        Ok(handle)
    }

    /// Returns the files as the functions of WASI 0.2 take them.
    pub(super) fn view(&mut self) -> FilesView<'_> {
        FilesView { files: Some(&mut self.files), refusals: &self.refusals, table: &mut self.table }
    }

    /// Takes a value out of the table.
    pub(super) fn take<T: std::any::Any>(&mut self, handle: Resource<T>) -> FsResult<T> {
        Ok(self.table.delete(handle)?)
    }
}
