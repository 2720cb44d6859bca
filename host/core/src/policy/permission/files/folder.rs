//! Granted folders: host path, guest path and access.

use std::path::{Path, PathBuf};

use super::quota::Quota;
use crate::policy::permission::GrantError;

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
/// use fumehood_core::policy::permission::GrantError;
/// use fumehood_core::policy::permission::files::{Access, Folder, Quota};
///
/// let docs = Folder::read("./docs:/docs")?;
/// assert_eq!(docs.guest(), "/docs");
/// let out = Folder::new("/var/lib/reports", "/out", Access::Write(Quota::parse("10MiB")?))?;
/// assert_eq!(out.write_line(), r#"write = ["/var/lib/reports:/out"]"#);
/// assert!(Folder::read("~/docs:/docs").is_err());
/// # Ok::<(), GrantError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    host: PathBuf,
    guest: String,
    access: Access,
}

impl Folder {
    /// Parses `HOST:GUEST`, such as `./docs:/docs`, as a folder for reading.
    ///
    /// # Errors
    /// If it is not two paths, or the guest path is not absolute and normalized.
    pub fn read(text: &str) -> Result<Self, GrantError> {
        Self::parse(text, Access::Read)
    }

    /// Parses `HOST:GUEST` as a folder for reading and writing, with the default [`Quota`].
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn write(text: &str) -> Result<Self, GrantError> {
        Self::parse(text, Access::Write(Quota::default()))
    }

    /// Creates a folder from its host path and its guest path.
    ///
    /// # Errors
    /// If `host` is empty or begins with `~`, or `guest` is not absolute and normalized.
    pub fn new(host: impl Into<PathBuf>, guest: &str, access: Access) -> Result<Self, GrantError> {
        let host = host.into();
        if host.as_os_str().is_empty() {
            return Err(incomplete("", "path on this machine"));
        }
        if host.starts_with("~") {
            let host = host.display();
            let message = format!("`{host}` starts with `~`, which is not expanded here; write the whole path");
            return Err(GrantError::new(message));
        }
        check_guest(guest)?;
        Ok(Self { host, guest: guest.to_owned(), access })
    }

    fn parse(text: &str, access: Access) -> Result<Self, GrantError> {
        // At the last colon, because the host path may contain others.
        match text.rsplit_once(':') {
            None | Some((_, "")) => Err(incomplete(text, "path for the tool")),
            Some(("", _)) => Err(incomplete(text, "path on this machine")),
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

fn incomplete(text: &str, missing: &str) -> GrantError {
    GrantError::new(format!("`{text}` has no {missing}; expected both paths, such as `./docs:/docs`"))
}

/// Checks that a guest path is absolute, without `.`, `..`, empty parts and control characters.
fn check_guest(guest: &str) -> Result<(), GrantError> {
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
    let guest: String = guest.escape_default().take(MAX_GUEST_PATH_BYTES).collect();
    Err(GrantError::new(format!(
        "invalid path `{guest}` for the tool: {reason}; expected an absolute path, such as `/docs`"
    )))
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
