//! The state that the host functions for files work on, and the steps that they share.

use std::sync::Arc;

use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{self, ErrorCode};
use wasmtime_wasi::p2::{FsError, FsResult};

use super::attempt::{Attempt, no_folder_refusal};
use super::call_files::{CallFiles, OpenFile};
use super::ledger::Ledger;
use super::names::ChangeError;
use super::protected_set::ProtectedSet;
use super::resolve::Base;
use super::stream;
use crate::engine::file_pool::{FilePool, Gone};
use crate::wasi::refusals::Refusals;

/// The files of a call and the table of its handles. Without a grant there are no files, and no handles.
pub(crate) struct FilesView<'a> {
    pub(crate) files: Option<&'a mut CallFiles>,
    pub(crate) refusals: &'a Refusals,
    pub(crate) table: &'a mut ResourceTable,
}

/// An operation on an open file or folder.
pub(super) struct Operation {
    pub(super) open: OpenFile,
    pub(super) attempt: Attempt,
    pub(super) pool: FilePool,
}

impl FilesView<'_> {
    pub(super) fn files(&mut self) -> FsResult<&mut CallFiles> {
        self.files.as_deref_mut().ok_or_else(|| ErrorCode::BadDescriptor.into())
    }

    /// Returns the context of wasmtime's own functions, and the pool that has to run them.
    pub(super) fn delegate(&mut self) -> FsResult<(WasiFilesystemCtxView<'_>, FilePool)> {
        let files = self.files.as_deref_mut().ok_or(ErrorCode::BadDescriptor)?;
        let pool = files.pool().clone();
        Ok((WasiFilesystemCtxView { ctx: &mut files.wasi, table: self.table }, pool))
    }

    /// Prepares an operation on an open file or folder.
    pub(super) fn prepare(&mut self, handle: &Resource<Descriptor>, verb: &'static str) -> FsResult<Operation> {
        let files = self.files()?;
        let open = files.get(handle.rep())?.clone();
        let attempt = Attempt::new(verb, open.path.to_string(), &files.refusals);
        Ok(Operation { open, attempt, pool: files.pool().clone() })
    }

    /// Prepares an operation on an open file.
    pub(super) fn prepare_file(&mut self, handle: &Resource<Descriptor>, verb: &'static str) -> FsResult<Operation> {
        let found = self.prepare(handle, verb)?;
        if found.open.is_dir { Err(ErrorCode::BadDescriptor.into()) } else { Ok(found) }
    }

    /// Prepares an operation on a path below an open folder.
    pub(super) fn prepare_path(
        &mut self,
        handle: &Resource<Descriptor>,
        verb: &'static str,
        path: &str,
    ) -> FsResult<Operation> {
        let files = self.files()?;
        let open = files.get(handle.rep())?.clone();
        let attempt = Attempt::new(verb, display_path(&open.path, path), &files.refusals);
        if !open.is_dir {
            return Err(ErrorCode::NotDirectory.into());
        }
        Ok(Operation { open, attempt, pool: files.pool().clone() })
    }
}

/// Joins `/docs` and `a/b` to `/docs/a/b` for messages. The result may be truncated, and is never used to open
/// anything.
pub(super) fn display_path(folder: &str, path: &str) -> String {
    const MAX_CHARACTERS: usize = 512;
    let slash = if folder.ends_with('/') || path.starts_with('/') { "" } else { "/" };
    let (folder, path) = if path.starts_with('/') { ("", path) } else { (folder, path) };
    folder.chars().chain(slash.chars()).chain(path.chars()).take(MAX_CHARACTERS).collect()
}

impl Operation {
    /// Returns the operation, or a refusal if the folder is read-only.
    pub(super) fn require_writable(self) -> FsResult<Self> {
        match self.open.folder.ledger {
            Some(_) => Ok(self),
            None => Err(self.attempt.read_only_error(self.open.folder.write_line.clone())),
        }
    }

    /// Runs `work` on a thread for file work, if the folder is writable.
    pub(super) async fn change<R: Send + 'static>(
        self,
        work: impl FnOnce(Base<'_>, &Ledger, &ProtectedSet) -> Result<R, ChangeError> + Send + 'static,
    ) -> FsResult<R> {
        let Self { open, attempt, pool } = self.require_writable()?;
        let changed = move || match &open.folder.ledger {
            Some(ledger) => work(open.base(), ledger, &open.folder.protected),
            None => Err(ErrorCode::NotPermitted.into()),
        };
        pool.run(changed).await.map_err(shut_down_error)?.map_err(|error| attempt.change_error(error))
    }
}

/// Returns the error for a host that is shutting down.
pub(super) fn shut_down_error(_: Gone) -> FsError {
    ErrorCode::Io.into()
}

impl types::Host for FilesView<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        let error = self.table.get(&error)?;
        let system_code = || error.downcast_ref::<std::io::Error>().map(ErrorCode::from);
        Ok(stream::to_error_code(error).or_else(system_code))
    }
}

impl preopens::Host for FilesView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let Some(files) = self.files.as_deref_mut() else {
            self.refusals.add_missing(no_folder_refusal());
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for folder in files.folders()? {
            let handle = self.table.push(Descriptor::Dir(folder.dir.clone()))?;
            let file = Arc::clone(&folder.dir.dir);
            let path = Arc::from(folder.guest.as_str());
            found.push((handle, folder.guest.clone()));
            let handle = found.last().map_or(0, |(handle, _)| handle.rep());
            files.insert(handle, OpenFile { file, is_dir: true, path, folder, slot: None });
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_display(folder: &str, path: &str, shown: &str) {
        assert_eq!(display_path(folder, path), shown)
    }

    #[test]
    fn displays_paths_as_the_guest_sees_them() {
        check_display("/docs", "a/b", "/docs/a/b");
        check_display("/", "a", "/a");
        check_display("/docs", "/etc/passwd", "/etc/passwd");
        check_display("/docs", "../../x", "/docs/../../x");
        assert_eq!(display_path("/docs", &"ä".repeat(5000)).chars().count(), 512);
    }
}
