//! `fumehood man`: manual pages.

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
            std::fs::create_dir_all(folder).with_context(unwritable)?;
            clap_mangen::generate_to(parse::command(), folder).with_context(unwritable)?;
        }
        None => {
            let mut page = Vec::new();
            Man::new(parse::command()).render(&mut page)?;
            crate::render::bytes(&page)?;
        }
    }
    Ok(Exit::Ok)
}
