//! Granted folders: host path, guest path and access.

use std::path::{Path, PathBuf};

use super::quota::{Quota, QuotaError};

/// The guest path of the scratch space.
pub const SCRATCH: &str = "/scratch";
/// Maximum length of a guest path, in bytes.
const MAX_GUEST_PATH_BYTES: usize = 256;

/// The kind of access to a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading, and writing within a quota.
    Write(Quota),
}

/// One granted folder.
///
/// ```
/// use fumehood_core::policy::permission::files::{Access, Folder, FolderError, Quota};
///
/// let docs = Folder::read("./docs:/docs")?;
/// assert_eq!(docs.guest(), "/docs");
/// let out = Folder::new("/var/lib/reports", "/out", Access::Write(Quota::parse("10MiB")?))?;
/// assert_eq!(out.write_line(), r#"write = ["/var/lib/reports:/out"]"#);
/// assert!(Folder::read("~/docs:/docs").is_err());
/// # Ok::<(), FolderError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    host: PathBuf,
    guest: String,
    access: Access,
}

/// Errors of a folder that cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FolderError {
    /// The guest path is missing.
    #[error("`{0}` has no path for the tool; expected both paths, such as `./docs:/docs`")]
    NoGuest(String),
    /// The host path is missing.
    #[error("`{0}` has no path on this machine; expected both paths, such as `./docs:/docs`")]
    NoHost(String),
    /// The host path begins with `~`, which only a shell resolves.
    #[error("`{0}` starts with `~`, which is not expanded here; write the whole path")]
    Home(String),
    /// The guest path is invalid.
    #[error("invalid path `{guest}` for the tool: {reason}; expected an absolute path, such as `/docs`")]
    Guest {
        /// The guest path, escaped.
        guest: String,
        /// The violated rule.
        reason: &'static str,
    },
    /// Two folders have the same guest path.
    #[error("two folders are granted as `{0}`; give them different paths")]
    Duplicate(String),
    /// The quota is invalid.
    #[error(transparent)]
    Quota(#[from] QuotaError),
}

impl Folder {
    /// Parses `HOST:GUEST`, such as `./docs:/docs`, as a folder for reading.
    ///
    /// # Errors
    /// If it is not two paths, or the guest path is not absolute and normalized.
    pub fn read(text: &str) -> Result<Self, FolderError> {
        Self::parse(text, Access::Read)
    }

    /// Parses `HOST:GUEST` as a folder for reading and writing, with the default [`Quota`].
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn write(text: &str) -> Result<Self, FolderError> {
        Self::parse(text, Access::Write(Quota::default()))
    }

    /// Creates a folder from its host path and its guest path.
    ///
    /// # Errors
    /// If `host` is empty or begins with `~`, or `guest` is not absolute and normalized.
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
        // At the last colon, because the host path may contain others.
        match text.rsplit_once(':') {
            None | Some((_, "")) => Err(FolderError::NoGuest(text.to_owned())),
            Some(("", _)) => Err(FolderError::NoHost(text.to_owned())),
            Some((host, guest)) => Self::new(host, guest, access),
        }
    }

    /// Returns the host path, as the operator wrote it.
    #[must_use]
    pub fn host(&self) -> &Path {
        &self.host
    }

    /// Returns the guest path.
    #[must_use]
    pub fn guest(&self) -> &str {
        &self.guest
    }

    /// Returns the access.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Returns the line of a policy that grants the folder for writing.
    #[must_use]
    pub fn write_line(&self) -> String {
        format!("write = [\"{}:{}\"]", self.host.display(), self.guest)
    }
}

/// Checks that a guest path is absolute, without `.`, `..`, empty parts and control characters.
fn check_guest(guest: &str) -> Result<(), FolderError> {
    let reason = if guest.len() > MAX_GUEST_PATH_BYTES {
        "it is longer than 256 bytes"
    } else if guest.chars().any(char::is_control) {
        "it contains control characters"
    } else if guest == "/" {
        return Ok(());
    } else {
        match guest.strip_prefix('/') {
            None => "it is relative",
            Some(rest) if rest.split('/').any(|part| part == "." || part == "..") => "it contains `.` or `..`",
            Some(rest) if rest.split('/').any(str::is_empty) => "it contains an empty part",
            Some(_) => return Ok(()),
        }
    };
    Err(FolderError::Guest { guest: guest.escape_default().take(MAX_GUEST_PATH_BYTES).collect(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_host_and_guest_path() {
        let folder = Folder::read("./docs:/docs").unwrap();
        assert_eq!((folder.host(), folder.guest(), folder.access()), (Path::new("./docs"), "/docs", Access::Read));
        let folder = Folder::write("/srv/a:b:/b/c").unwrap();
        assert_eq!((folder.host(), folder.guest()), (Path::new("/srv/a:b"), "/b/c"));
        assert_eq!(folder.access(), Access::Write(Quota::default()));
        assert_eq!(folder.write_line(), r#"write = ["/srv/a:b:/b/c"]"#);
        assert!(Folder::read(".:/").is_ok());
    }

    #[test]
    fn rejects_invalid_paths_with_the_fix() {
        fn check(text: &str, expected: &str) {
            let error = Folder::read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }

        check("./docs", "has no path for the tool");
        check("./docs:", "has no path for the tool");
        check("", "has no path for the tool");
        check(":/docs", "has no path on this machine");
        check("~/docs:/docs", "starts with `~`");
        check("./docs:docs", "it is relative");
        check("./docs:./docs", "it is relative");
        check("./docs:/../docs", "it contains `.` or `..`");
        check("./docs:/docs/.", "it contains `.` or `..`");
        check("./docs:/docs/", "it contains an empty part");
        check("./docs://", "it contains an empty part");
        check("./docs:/a\0b", "control characters");
        check(&format!("./docs:/{}", "a".repeat(256)), "longer than 256 bytes");
    }
}
