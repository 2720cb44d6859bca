//! Values that are kept elsewhere: in the environment, in a file, in the keyring.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use linux_keyutils::{KeyRing, KeyRingIdentifier};

use crate::config::secret::ValueSource;

/// More than this is not one value.
const MOST_BYTES: u64 = 64 << 10;

/// Why there is no value. It is never repeated, not even in part.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ValueError {
    #[error("the environment variable {0} is not set; set it, or name another one")]
    Unset(String),
    #[error("the value in {0} is not UTF-8 text")]
    NotText(String),
    #[error("the value in {0} is empty")]
    Empty(String),
    #[error("cannot read the value in {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{0} is not a regular file of at most 64 KiB; give one that holds the value and nothing else")]
    NotAFile(PathBuf),
    #[error(
        "the keyring of this user has no key `fumehood:{0}` that can be read; add it with `keyctl padd user fumehood:{0} @u`"
    )]
    NotInKeyring(String),
}

impl ValueSource {
    /// The value. Files are relative to `base`; one line break at their end does not count.
    ///
    /// # Errors
    /// If it is not there, not text, or empty.
    pub(crate) fn value(&self, base: &Path) -> Result<String, ValueError> {
        let (value, place) = match self {
            Self::Env(name) => (from_environment(name)?, format!("the environment variable {name}")),
            Self::File(path) => {
                let path = base.join(path);
                (from_file(&path)?, path.display().to_string())
            }
            Self::Keyring(name) => (from_keyring(name)?, format!("the keyring, `fumehood:{name}`")),
        };
        if value.is_empty() { Err(ValueError::Empty(place)) } else { Ok(value) }
    }
}

fn from_environment(name: &str) -> Result<String, ValueError> {
    // The operating system itself refuses such names by panicking.
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(ValueError::Unset(name.to_owned()));
    }
    match std::env::var(name) {
        Ok(value) => Ok(value),
        Err(std::env::VarError::NotPresent) => Err(ValueError::Unset(name.to_owned())),
        Err(std::env::VarError::NotUnicode(_)) => Err(ValueError::NotText(format!("the environment variable {name}"))),
    }
}

/// The keyring of the user, or else that of the session, in the kernel: there no other user and no disk sees it.
fn from_keyring(name: &str) -> Result<String, ValueError> {
    let absent = || ValueError::NotInKeyring(name.to_owned());
    // It is handed to the kernel as a C string.
    if name.is_empty() || name.contains('\0') {
        return Err(absent());
    }
    let key = [KeyRingIdentifier::User, KeyRingIdentifier::Session].into_iter().find_map(|ring| {
        KeyRing::from_special_id(ring, false).and_then(|ring| ring.search(&format!("fumehood:{name}"))).ok()
    });
    let bytes = key.ok_or_else(absent)?.read_to_vec().map_err(|_| absent())?;
    String::from_utf8(bytes).map_err(|_| ValueError::NotText(format!("the keyring, `fumehood:{name}`")))
}

fn from_file(path: &Path) -> Result<String, ValueError> {
    let io = |source| ValueError::Read { path: path.to_owned(), source };
    // Looked at before it is opened: opening a pipe would wait for somebody to write.
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(ValueError::NotAFile(path.to_owned()));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(io)?.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(ValueError::NotAFile(path.to_owned()));
    }
    let mut text = String::from_utf8(bytes).map_err(|_| ValueError::NotText(path.display().to_string()))?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_or_its_lack_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let check = |source: ValueSource, expected: &str| {
            let said = source.value(folder.path()).unwrap_or_else(|error| error.to_string());
            assert!(said.contains(expected), "{said}");
        };
        std::fs::write(folder.path().join("token"), "s3cret\r\n").unwrap();
        std::fs::write(folder.path().join("empty"), "\n").unwrap();
        std::fs::write(folder.path().join("binary"), [0xff]).unwrap();
        std::fs::write(folder.path().join("large"), vec![b'a'; 70_000]).unwrap();
        let file = |name: &str| ValueSource::File(name.into());
        assert_eq!(file("token").value(folder.path()).unwrap(), "s3cret");
        check(file("empty"), "is empty");
        check(file("binary"), "is not UTF-8 text");
        check(file("large"), "at most 64 KiB");
        check(file("absent"), "cannot read the value in");
        check(file("."), "is not a regular file");
        check(ValueSource::Env("FUMEHOOD_TEST_ABSENT".to_owned()), "is not set; set it");
        check(ValueSource::Env("A=B".to_owned()), "is not set");
        check(
            ValueSource::Keyring("absent-from-tests".to_owned()),
            "add it with `keyctl padd user fumehood:absent-from",
        );
        check(ValueSource::Keyring(String::new()), "has no key");
        check(ValueSource::Keyring("a\0b".to_owned()), "has no key");
        assert!(ValueSource::Env("PATH".to_owned()).value(folder.path()).is_ok());
    }

    #[test]
    fn a_key_of_the_keyring_is_read() {
        let name = format!("test-{}", std::process::id());
        let ring = KeyRing::from_special_id(KeyRingIdentifier::User, true);
        // Containers often keep the keyring from those inside; then there is nothing to be read.
        let Ok(key) = ring.and_then(|ring| ring.add_key(&format!("fumehood:{name}"), "s3cret")) else { return };
        let value = ValueSource::Keyring(name).value(Path::new(".")).unwrap();
        key.invalidate().unwrap();
        assert_eq!(value, "s3cret");
    }
}
