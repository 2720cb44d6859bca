//! Files: the folders that were granted, and nothing else. Without a grant there is no folder to start from.
//!
//! What is asked of files that are open already, and of metadata, goes to wasmtime's own functions. Everything that
//! opens, creates, changes, removes or lists is ours: paths are resolved by the kernel beneath the granted folder,
//! pipes, sockets and devices are never opened, whatever grows is charged to the folder's account first, and what may
//! be open or listed is bounded. All of it blocks only threads for file work.

mod call;
mod descriptor;
mod emptying;
mod entries;
mod folder;
mod ledger;
mod listing;
mod names;
mod protect;
mod refuse;
mod resolve;
mod scratch;
mod scratch_root;
mod stream;
mod view;

use wasmtime::component::{HasData, Linker};
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};

pub(crate) use call::CallFiles;
pub use folder::FolderError;
pub(crate) use folder::{OpenFolder, OpenFolders, open_all, open_files};
pub(crate) use protect::Protected;
pub(crate) use scratch::Scratch;
pub(crate) use scratch_root::{HeldScratch, ScratchRoot};
pub(crate) use view::FilesView;

/// Leaves wasmtime's own side without a folder, and keeps its file work off the threads that run guests.
pub(crate) fn refuse(builder: &mut WasiCtxBuilder) {
    builder.allow_blocking_current_thread(false);
}

/// Names the type of what the host functions work on.
struct Files;

impl HasData for Files {
    type Data<'a> = FilesView<'a>;
}

/// Links these functions in the place of wasmtime's own.
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
