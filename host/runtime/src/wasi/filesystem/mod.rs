//! The `wasi:filesystem` interfaces: the folders that were granted, and nothing else. Without a grant there is no
//! folder to start from.
//!
//! Operations on open files and on metadata are delegated to wasmtime's own functions. Everything that opens, creates,
//! changes, removes or lists is implemented here, on directories of cap-std: paths are resolved beneath the granted folder; pipes, sockets
//! and devices are never opened; growth is charged to the folder's account first; and the number of open files and of
//! listed names is bounded. All of it blocks only threads for file work.

mod asynchronous;
mod asynchronous_stream;
mod call_files;
mod descriptor;
mod lent;
mod remove_contents;

mod attempt;
mod folder;
mod ledger;
mod listing;
mod names;
mod protected_set;
mod resolve;
mod resolver;
mod scratch;
mod scratch_root;
mod stream;
mod view;

use wasmtime::component::{HasData, Linker};
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};

use super::CallState;

pub(crate) use attempt::no_folder_refusal;
pub(crate) use call_files::CallFiles;
pub use folder::FolderError;
pub(crate) use folder::{OpenFolder, OpenFolders, open_all, open_files};
pub(super) use listing::entry_bytes;
pub(crate) use protected_set::ProtectedSet;
pub(crate) use scratch::Removals;
pub(crate) use scratch_root::{ScratchRoot, WorkerScratch};
pub(crate) use view::FilesView;

/// Keeps the file work of wasmtime's own functions off the threads that run guests. It preopens no folder: those of the
/// grant come from [`FilesView`].
pub(crate) fn configure(builder: &mut WasiCtxBuilder) {
    builder.allow_blocking_current_thread(false);
}

/// The type-level key of [`FilesView`] for the linker.
struct Files;

impl HasData for Files {
    type Data<'a> = FilesView<'a>;
}

/// Links the file functions of this module in place of wasmtime's own.
pub(crate) fn link<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> FilesView<'_>,
) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    types::add_to_linker::<T, Files>(linker, view)?;
    preopens::add_to_linker::<T, Files>(linker, view)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Links the file functions of WASI 0.3, in place of wasmtime's own. The linker must allow that.
pub(super) fn link_p3(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    asynchronous::link(linker, CallState::files)
}
