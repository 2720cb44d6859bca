//! Conversion of I/O errors to failures.

use std::io::{Error, ErrorKind};
use std::path::Path;

use fumehood_guest::ToolError;

/// Converts an I/O error. `verb` names the operation, such as "read".
pub(crate) fn io_failure(verb: &str, path: &Path, error: &Error) -> ToolError {
    let path = path.display();
    match error.kind() {
        ErrorKind::NotFound => {
            ToolError::invalid_arguments(format!("there is no `{path}`; `list` lists the contents of a folder"))
        }
        ErrorKind::NotADirectory => ToolError::invalid_arguments(format!("a part of `{path}` is not a folder")),
        ErrorKind::IsADirectory => ToolError::invalid_arguments(format!("`{path}` is a folder, not a file")),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            ToolError::denied(format!("this tool may not {verb} `{path}`"))
        }
        ErrorKind::QuotaExceeded | ErrorKind::StorageFull => {
            ToolError::failed(format!("there is no room left to {verb} `{path}`; delete something or write less"))
        }
        _ => ToolError::failed(format!("cannot {verb} `{path}`: {error}")),
    }
}
