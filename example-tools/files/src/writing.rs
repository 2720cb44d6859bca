//! The tool `write`.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use fumehood_guest::{ToolError, tool};
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::io_failure;
use crate::grants;

/// Maximum number of names that are tried for a temporary file.
const MAX_NAME_ATTEMPTS: u32 = 16;

/// A file that was written.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Written {
    /// Its path.
    pub path: String,
    /// The new size in bytes.
    pub bytes: u64,
    /// True if the file existed before.
    pub replaced: bool,
}

/// Writes a text file. One that exists is replaced as a whole, unless the text is appended to it. The folder has to exist.
#[tool(title = "Write a file", destructive, open_world = false)]
pub fn write(
    /// The absolute path of the file.
    #[schemars(length(min = 1, max = 4096))]
    path: String,
    /// The text.
    text: String,
    /// True to append the text to the file, if it exists.
    #[default]
    append: bool,
) -> Result<Written, ToolError> {
    let file = grants::check_path(&path)?;
    let before = match fs::metadata(&file) {
        Ok(metadata) if metadata.is_dir() => {
            return Err(ToolError::invalid_arguments(format!("`{path}` is a folder, not a file")));
        }
        Ok(metadata) => Some(metadata.len()),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(io_failure("write", &file, &error)),
    };
    if append { add(&file, &text) } else { replace(&file, &text) }?;
    let kept = before.filter(|_| append).unwrap_or_default();
    Ok(Written { path, bytes: kept + text.len() as u64, replaced: before.is_some() })
}

fn add(file: &Path, text: &str) -> Result<(), ToolError> {
    let mut open =
        OpenOptions::new().append(true).create(true).open(file).map_err(|e| io_failure("write", file, &e))?;
    open.write_all(text.as_bytes()).map_err(|error| io_failure("write", file, &error))
}

/// Replaces a file by renaming a temporary one, so that no reader ever sees a partial file.
fn replace(file: &Path, text: &str) -> Result<(), ToolError> {
    let partial = create_temporary(file)?;
    let whole = fs::write(&partial, text).and_then(|()| fs::rename(&partial, file));
    whole.map_err(|error| {
        // The first error matters more than a leftover file.
        let _ = fs::remove_file(&partial);
        io_failure("write", file, &error)
    })
}

/// Creates an empty temporary file in the same folder.
fn create_temporary(file: &Path) -> Result<PathBuf, ToolError> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    for number in 0..MAX_NAME_ATTEMPTS {
        let partial = file.with_file_name(format!(".{name}.{number}.partial"));
        match OpenOptions::new().write(true).create_new(true).open(&partial) {
            Ok(_) => return Ok(partial),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io_failure("write", file, &error)),
        }
    }
    let message = format!("other calls are writing `{}` just now, or left unfinished files beside it", file.display());
    Err(ToolError::unavailable(message))
}

#[cfg(test)]
mod tests {
    use fumehood_guest::FailureKind;

    use super::*;
    use crate::grants::tests::Folder;

    #[test]
    fn writes_replaces_and_appends() {
        let folder = Folder::with(&[("b/c", "")]);
        let write = |path: &str, text: &str, append| {
            let written = write(folder.path(path), text.to_owned(), append).unwrap();
            let there = fs::read_to_string(folder.path(path)).unwrap();
            assert_eq!(written.bytes, there.len() as u64);
            (there, written.replaced)
        };
        assert_eq!(write("a.txt", "one", false), ("one".to_owned(), false));
        assert_eq!(write("a.txt", "two", false), ("two".to_owned(), true));
        assert_eq!(write("a.txt", "three", true), ("twothree".to_owned(), true));
        assert_eq!(write("b/new.txt", "x", true), ("x".to_owned(), false));
        assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn failed_write_changes_nothing() {
        let folder = Folder::with(&[("a/b", "")]);
        let kind = |path: String| write(path, "x".to_owned(), false).unwrap_err().kind();
        assert_eq!(kind(folder.path("a")), FailureKind::InvalidArguments);
        assert_eq!(kind(folder.path("absent/file")), FailureKind::InvalidArguments);
        assert_eq!(kind(folder.path("a/b/c")), FailureKind::InvalidArguments);
        assert_eq!(kind("/etc/fumehood-test".to_owned()), FailureKind::Denied);
        assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 1);
    }

    #[test]
    fn leaves_temporary_files_of_others_alone() {
        let names: Vec<String> = (0..MAX_NAME_ATTEMPTS).map(|number| format!(".a.{number}.partial")).collect();
        let folder = Folder::with(&names.iter().map(|name| (name.as_str(), "theirs")).collect::<Vec<_>>());
        let error = write(folder.path("a"), "x".to_owned(), false).unwrap_err();
        assert_eq!(error.kind(), FailureKind::Unavailable);
        assert_eq!(fs::read_to_string(folder.path(".a.3.partial")).unwrap(), "theirs");
    }
}
