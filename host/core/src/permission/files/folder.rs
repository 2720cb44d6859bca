//! One granted folder: where it is, where the tool sees it, and what may be done in it.

use std::path::{Path, PathBuf};

use super::quota::{Quota, QuotaError};

/// Where a tool sees its scratch space.
pub const SCRATCH: &str = "/scratch";
/// The longest path under which a tool may see a folder, in bytes.
const GUEST_BYTES: usize = 256;

/// What may be done in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading, and writing within a quota.
    Write(Quota),
}

/// One granted folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    host: PathBuf,
    guest: String,
    access: Access,
}

/// Why a text or a pair of paths is no folder to grant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FolderError {
    /// No second path.
    #[error("`{0}` does not say where the tool sees the folder; write both paths, such as `./docs:/docs`")]
    NoGuest(String),
    /// No first path.
    #[error("`{0}` names no folder of this machine; write both paths, such as `./docs:/docs`")]
    NoHost(String),
    /// A path that only a shell understands.
    #[error("`{0}` begins with `~`, which is not resolved here; write the path out")]
    Home(String),
    /// The tool's path is not one.
    #[error("`{guest}` is not where a tool can see a folder: {reason}; write an absolute path, such as `/docs`")]
    Guest {
        /// What was given.
        guest: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Two folders in one place.
    #[error("two folders are granted as `{0}`; give each a path of its own")]
    Twice(String),
    /// The quota makes no sense.
    #[error(transparent)]
    Quota(#[from] QuotaError),
}

impl Folder {
    /// A folder for reading, as `HOST:GUEST`: `./docs:/docs`.
    ///
    /// # Errors
    /// If it is not two paths, or the second is not absolute and plain.
    pub fn read(text: &str) -> Result<Self, FolderError> {
        Self::parse(text, Access::Read)
    }

    /// A folder for reading and writing, as `HOST:GUEST`, with the default [`Quota`].
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn write(text: &str) -> Result<Self, FolderError> {
        Self::parse(text, Access::Write(Quota::default()))
    }

    /// The same with two paths apart.
    ///
    /// # Errors
    /// If the first is empty, or the second is not absolute and plain.
    pub fn new(host: impl Into<PathBuf>, guest: &str, access: Access) -> Result<Self, FolderError> {
        let host = host.into();
        if host.as_os_str().is_empty() {
            return Err(FolderError::NoHost(String::new()));
        }
        if host.starts_with("~") {
            return Err(FolderError::Home(host.display().to_string()));
        }
        check_guest(guest)?;
        Ok(Self { host, guest: guest.to_owned(), access })
    }

    fn parse(text: &str, access: Access) -> Result<Self, FolderError> {
        // The last colon, because a path of the host may hold others.
        match text.rsplit_once(':') {
            None | Some((_, "")) => Err(FolderError::NoGuest(text.to_owned())),
            Some(("", _)) => Err(FolderError::NoHost(text.to_owned())),
            Some((host, guest)) => Self::new(host, guest, access),
        }
    }

    /// The path on the host, as the operator gave it.
    #[must_use]
    pub fn host(&self) -> &Path {
        &self.host
    }

    /// Where the tool sees it.
    #[must_use]
    pub fn guest(&self) -> &str {
        &self.guest
    }

    /// What may be done in it.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// The line of a policy that grants it for writing.
    #[must_use]
    pub fn write_line(&self) -> String {
        format!("write = [\"{}:{}\"]", self.host.display(), self.guest)
    }
}

/// Absolute, without `.` and `..`, without what no path holds.
fn check_guest(guest: &str) -> Result<(), FolderError> {
    let reason = if guest.len() > GUEST_BYTES {
        "it is longer than 256 bytes"
    } else if guest.chars().any(char::is_control) {
        "it holds control characters"
    } else if guest == "/" {
        return Ok(());
    } else {
        match guest.strip_prefix('/') {
            None => "it is relative",
            Some(rest) if rest.split('/').any(|part| part == "." || part == "..") => "it holds `.` or `..`",
            Some(rest) if rest.split('/').any(str::is_empty) => "it holds an empty part",
            Some(_) => return Ok(()),
        }
    };
    Err(FolderError::Guest { guest: guest.escape_default().take(GUEST_BYTES).collect(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_two_paths() {
        let folder = Folder::read("./docs:/docs").unwrap();
        assert_eq!((folder.host(), folder.guest(), folder.access()), (Path::new("./docs"), "/docs", Access::Read));
        let folder = Folder::write("/srv/a:b:/b/c").unwrap();
        assert_eq!((folder.host(), folder.guest()), (Path::new("/srv/a:b"), "/b/c"));
        assert_eq!(folder.access(), Access::Write(Quota::default()));
        assert_eq!(folder.write_line(), r#"write = ["/srv/a:b:/b/c"]"#);
        assert!(Folder::read(".:/").is_ok());
    }

    #[test]
    fn what_is_not_two_paths_is_refused_with_the_fix() {
        let check = |text: &str, says: &str| {
            let said = Folder::read(text).unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        };
        check("./docs", "does not say where the tool sees");
        check("./docs:", "does not say where the tool sees");
        check("", "does not say where the tool sees");
        check(":/docs", "names no folder");
        check("~/docs:/docs", "begins with `~`");
        check("./docs:docs", "it is relative");
        check("./docs:./docs", "it is relative");
        check("./docs:/../docs", "it holds `.` or `..`");
        check("./docs:/docs/.", "it holds `.` or `..`");
        check("./docs:/docs/", "it holds an empty part");
        check("./docs://", "it holds an empty part");
        check("./docs:/a\0b", "control characters");
        check(&format!("./docs:/{}", "a".repeat(256)), "longer than 256 bytes");
    }
}
