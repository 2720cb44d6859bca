//! `fumehood man`: manual pages.

use std::io;
use std::path::Path;

use anyhow::{Context as _, Result};
use clap_mangen::Man;

use crate::args::parse;
use crate::exit::Exit;

/// Prints the page of `fumehood` itself, or writes a page for each command to `folder`.
///
/// # Errors
/// If the folder or standard output cannot be written.
pub(crate) fn run(folder: Option<&Path>) -> Result<Exit> {
    match folder {
        Some(folder) => {
            let unwritable = || format!("cannot write manual pages to {}", folder.display());
            write_pages(folder).with_context(unwritable)?;
        }
        None => {
            let mut page = Vec::new();
            Man::new(parse::command()).render(&mut page)?;
            crate::render::bytes(&page)?;
        }
    }
    Ok(Exit::Ok)
}

/// Writes a page for each command to a folder. Links there are replaced, and not followed: whoever planted one would choose
/// the file that is overwritten.
fn write_pages(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    if std::fs::symlink_metadata(folder)?.is_symlink() {
        return Err(io::Error::other("it is a symbolic link; expected a folder"));
    }
    let pages = tempfile::tempdir_in(folder)?;
    clap_mangen::generate_to(parse::command(), pages.path())?;
    for page in std::fs::read_dir(pages.path())? {
        let page = page?;
        std::fs::rename(page.path(), folder.join(page.file_name()))?;
    }
    pages.close()
}
