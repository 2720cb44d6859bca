//! `fumehood embed-docs`: embeds the doc comments of WIT in a component.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use fumehood::WitDocs;
use fumehood::limits::display_bytes;

use crate::args::{self, Arguments};
use crate::exit::{ComponentLoadError, Exit, UsageError};
use crate::{host, render};

pub(crate) fn run(arguments: &Arguments, embed: &args::EmbedDocs) -> Result<Exit> {
    let docs = WitDocs::read(&embed.wit).map_err(|error| UsageError(error.to_string()))?;
    let cannot_read = || UsageError(format!("cannot read {}", embed.component.display()));
    let component = std::fs::read(&embed.component).with_context(cannot_read)?;
    let file = host::file_name(&embed.component);
    let described = docs.embed(&component).map_err(|source| ComponentLoadError::Component { file, source })?;
    let cannot_write = || UsageError(format!("cannot write {}", embed.output.display()));
    replace(&embed.output, &described).with_context(cannot_write)?;
    let output = embed.output.display();
    if arguments.json {
        render::json(&serde_json::json!({"output": output.to_string(), "bytes": described.len()}))?;
    } else {
        let size = display_bytes(described.len() as u64);
        render::line(&format!("wrote {output} ({size}); `fumehood inspect {output}` shows what a model reads"))?;
    }
    Ok(Exit::Ok)
}

/// Writes a file atomically, because it may be the only copy of the component.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let permissions = fumehood_platform::private::usual_permissions();
    let mut file = tempfile::Builder::new().permissions(permissions).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}
