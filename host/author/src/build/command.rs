//! Running the tools of languages: the search for a program, and its failures.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::BuildError;

/// Maximum length of the output of a failed tool that an error quotes, in bytes.
const MAX_QUOTE_BYTES: usize = 4000;

/// Finds a program: the one that a variable names, one in a folder of the project, or one of the search path.
pub(super) fn find_program(variable: &str, folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(variable).filter(|named| !named.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let search = folders.iter().cloned().chain(std::env::split_paths(&path));
    search.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Runs a tool whose output is for people, and sends all of it to stderr, because stdout belongs to this command.
pub(super) fn run(command: &mut Command, what: &str) -> Result<(), BuildError> {
    let program = name_of(command);
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status();
    let status = status.map_err(|source| BuildError::Start { program, source })?;
    if status.success() {
        return Ok(());
    }
    Err(BuildError::Failed { program: what.to_owned(), reason: "; its messages above say why".to_owned() })
}

/// Runs a tool and returns its standard output. Its messages appear in the error if it fails.
pub(super) fn capture(command: &mut Command, what: &str) -> Result<Vec<u8>, BuildError> {
    let program = name_of(command);
    let output = command.stdin(Stdio::null()).output();
    let Output { status, stdout, stderr } = output.map_err(|source| BuildError::Start { program, source })?;
    if status.success() {
        return Ok(stdout);
    }
    let text = String::from_utf8_lossy(&stderr);
    let text = text.trim();
    let start = text.char_indices().map(|(at, _)| at).find(|at| text.len() - at <= MAX_QUOTE_BYTES).unwrap_or_default();
    let quoted = text.get(start..).unwrap_or_default();
    Err(BuildError::Failed { program: what.to_owned(), reason: format!(": {quoted}") })
}

fn name_of(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or(OsStr::new("a program")).to_string_lossy().into_owned()
}
