//! Sources of the values of secrets, where an operator keeps them.

mod keyring;

use std::io::Read;
use std::path::{Path, PathBuf};

use fumehood_core::policy::permission::{SecretError, SecretValue};
use fumehood_platform::private;

/// Maximum size of a file with a secret, in bytes.
const FILE_BYTES: u64 = 64 << 10;

/// The place of a secret's value.
///
/// ```
/// use fumehood::{SecretSource, SecretSourceError};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::os::unix::fs::PermissionsExt as _;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("token");
/// # std::fs::write(&path, "0123456789abcdef\n")?;
/// # std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
/// // A file that only its owner can read.
/// let token = SecretSource::File(path).read()?;
/// assert_eq!(token.expose(), "0123456789abcdef");
/// assert!(!format!("{token:?}").contains("0123456789abcdef"));
///
/// let missing = SecretSource::Env("MY_SERVICE_TOKEN".to_owned()).read();
/// assert!(matches!(missing, Err(SecretSourceError::NotSet(_))));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SecretSource {
    /// An environment variable of this process.
    Env(String),
    /// A file that only its owner can read. A line break at its end is not part of the value.
    File(PathBuf),
    /// The user's keyring in the kernel, which keeps it until the machine restarts or the keyring expires.
    Keyring {
        /// The service that the secret is for.
        service: String,
        /// The user of the service.
        user: String,
    },
}

/// Errors of reading a secret. The value is never part of them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretSourceError {
    /// The variable is not set.
    #[error("the environment variable `{0}` is not set; set it to the secret, or name another source")]
    NotSet(String),
    /// The value of the variable is not valid UTF-8.
    #[error("the environment variable `{0}` is not text")]
    NotText(String),
    /// The file cannot be read.
    #[error("cannot read the secret in {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The path is that of a folder, a device or a pipe.
    #[error("{0} is not a regular file")]
    NotAFile(PathBuf),
    /// The file is too large for a secret.
    #[error("{0} is too large for a secret; expected only the secret in it")]
    TooLarge(PathBuf),
    /// Users other than the owner can access the file.
    #[error("other users can read the secret in {path} (mode {mode:03o}); run `chmod 600 {path}`")]
    Readable {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The keyring has no such secret.
    #[error(
        "the kernel's keyring has no secret for `{user}` of `{service}`; add it under the name `{}`",
        description(.service, .user)
    )]
    NotInKeyring {
        /// The service that the secret is for.
        service: String,
        /// The user of the service.
        user: String,
    },
    /// The keyring cannot be used.
    #[error("cannot read the kernel's keyring; use another source")]
    Keyring(#[source] keyring_core::Error),
    /// The value cannot be a secret.
    #[error("invalid secret in {place}")]
    Value {
        /// The variable or the file.
        place: String,
        /// The error of the value.
        source: SecretError,
    },
}

impl SecretSource {
    /// Reads the value.
    ///
    /// # Errors
    /// If there is no value, users other than the owner can access the file, or the value cannot be a secret.
    pub fn read(&self) -> Result<SecretValue, SecretSourceError> {
        let (place, value) = match self {
            Self::Env(name) => (format!("the environment variable `{name}`"), from_environment(name)?),
            Self::File(path) => (path.display().to_string(), from_file(path)?),
            Self::Keyring { service, user } => {
                (format!("the keyring, `{}`", description(service, user)), from_keyring(service, user)?)
            }
        };
        SecretValue::new(value).map_err(|source| SecretSourceError::Value { place, source })
    }
}

fn from_environment(name: &str) -> Result<String, SecretSourceError> {
    // Such a name would be read as that of another variable, or is not valid.
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(SecretSourceError::NotSet(name.to_owned()));
    }
    std::env::var(name).map_err(|error| match error {
        std::env::VarError::NotPresent => SecretSourceError::NotSet(name.to_owned()),
        std::env::VarError::NotUnicode(_) => SecretSourceError::NotText(name.to_owned()),
    })
}

fn from_file(path: &Path) -> Result<String, SecretSourceError> {
    let io = |source| SecretSourceError::Read { path: path.to_owned(), source };
    // Checked before it is opened, because opening a pipe would block until a process writes to it.
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(SecretSourceError::NotAFile(path.to_owned()));
    }
    let file = std::fs::File::open(path).map_err(io)?;
    // Checked again once it is open, because the path may name another file by now.
    let metadata = file.metadata().map_err(io)?;
    if private::is_open_to_others(&metadata) {
        return Err(SecretSourceError::Readable { path: path.to_owned(), mode: private::mode(&metadata) });
    }
    let mut value = String::new();
    let read = file.take(FILE_BYTES + 1).read_to_string(&mut value).map_err(io)?;
    if read as u64 > FILE_BYTES {
        return Err(SecretSourceError::TooLarge(path.to_owned()));
    }
    let end = value.strip_suffix('\n').map_or(value.len(), |rest| rest.strip_suffix('\r').unwrap_or(rest).len());
    value.truncate(end);
    Ok(value)
}

/// Returns the name of the secret in the keyring.
fn description(service: &str, user: &str) -> String {
    format!("keyring:{user}@{service}")
}

fn from_keyring(service: &str, user: &str) -> Result<String, SecretSourceError> {
    let not_there = || SecretSourceError::NotInKeyring { service: service.to_owned(), user: user.to_owned() };
    keyring::read(service, user).map_err(SecretSourceError::Keyring)?.ok_or_else(not_there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn file(content: &[u8], mode: u32) -> (tempfile::TempDir, SecretSource) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (folder, SecretSource::File(path))
    }

    #[test]
    fn a_file_that_only_its_owner_reads_holds_a_value() {
        for (content, expected) in [("s3cr3t", "s3cr3t"), ("s3cr3t\n", "s3cr3t"), ("a b c\r\n", "a b c")] {
            for mode in [0o600, 0o400] {
                let (_folder, source) = file(content.as_bytes(), mode);
                assert_eq!(source.read().unwrap().expose(), expected);
            }
        }
    }

    #[test]
    fn a_file_that_is_not_as_it_should_be_is_refused_without_its_content() {
        let large = vec![b'x'; 70_000];
        for (content, mode, expected) in [
            (&b"s3cr3t"[..], 0o644, "chmod 600"),
            (b"s3cr3t", 0o640, "(mode 640)"),
            (b"s3cr3t", 0o604, "chmod 600"),
            (b"", 0o600, "invalid secret"),
            (b"\n", 0o600, "invalid secret"),
            (b"s3cr3t\n\n", 0o600, "invalid secret"),
            (b"s3cr\xff", 0o600, "cannot read"),
            (&large, 0o600, "too large"),
        ] {
            let (_folder, source) = file(content, mode);
            let error = source.read().unwrap_err();
            assert!(
                error.to_string().contains(expected) && !format!("{error:?} {error}").contains("s3cr3t"),
                "{error}"
            );
        }
        let folder = tempfile::tempdir().unwrap();
        let check = |path: PathBuf, expected: &str| {
            let error = SecretSource::File(path).read().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(folder.path().to_owned(), "regular file");
        check(folder.path().join("missing"), "cannot read");
        check(PathBuf::from("/dev/null"), "regular file");
    }

    #[test]
    fn a_variable_that_is_not_there_is_named() {
        for name in ["FUMEHOOD_TEST_NO_SUCH_SECRET", "", "A=B", "A\0B"] {
            assert!(matches!(SecretSource::Env(name.to_owned()).read(), Err(SecretSourceError::NotSet(_))), "{name:?}");
        }
        // Cargo sets it for every test; it is no secret, and long enough for one.
        let value = SecretSource::Env("CARGO_MANIFEST_DIR".to_owned()).read();
        assert_eq!(value.unwrap().expose(), env!("CARGO_MANIFEST_DIR"));
    }

    /// Independent of the machine: without a keyring, and without the entry, the error names the keyring.
    #[test]
    fn a_keyring_that_has_no_such_secret_says_so() {
        let source = SecretSource::Keyring { service: "fumehood-test".to_owned(), user: "nobody".to_owned() };
        let error = source.read().unwrap_err().to_string();
        assert!(error.contains("keyring"), "{error}");
    }
}
