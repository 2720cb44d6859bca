//! The configurations that the user trusts: one small file for each in the user's state folder.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use fumehood::Digest;
use fumehood_platform::private;
use serde::{Deserialize, Serialize};

use crate::exit::UsageError;

/// Prefix of the hashed data, which separates these digests from those for other purposes.
const DIGEST_CONTEXT: &str = "fumehood trust 1\n";
/// Version of the record format.
const RECORD_VERSION: u32 = 1;
/// Maximum size of a record, in bytes.
const MAX_RECORD_BYTES: u64 = 64 << 10;

/// The records of trusted configurations.
pub(crate) struct TrustStore {
    folder: PathBuf,
}

/// A trusted configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    version: u32,
    /// Path of the configuration, for people.
    pub(crate) file: String,
    /// Digest of its path and text.
    pub(crate) digest: Digest,
    /// Digest with the text that takes the place of this one just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<Digest>,
}

/// The trust in a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrustStatus {
    /// Its present text is trusted.
    Trusted,
    /// Another text of it was trusted.
    Changed,
    /// It was never trusted, or the trust was revoked.
    Unknown,
}

impl TrustStore {
    /// Creates the store in the state folder of the current user.
    ///
    /// # Errors
    /// If there is no home folder.
    pub(crate) fn for_current_user() -> Result<Self, UsageError> {
        let folder = crate::user_folders::state_folder().ok_or_else(|| {
            let message = "there is no home folder to save trust in; name the configuration with `--config FILE`";
            UsageError(message.to_owned())
        })?;
        Ok(Self { folder: folder.join("trust") })
    }

    /// Returns the trust in this text of this file.
    pub(crate) fn status(&self, file: &Path, text: &str) -> TrustStatus {
        let location = location(file);
        match read_record(&self.path_of(&location)) {
            Some(record) if record.covers(&digest(&location, text)) => TrustStatus::Trusted,
            Some(_) => TrustStatus::Changed,
            None => TrustStatus::Unknown,
        }
    }

    /// Trusts this text of this file, and no other.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub(crate) fn trust(&self, file: &Path, text: &str) -> anyhow::Result<()> {
        self.write(file, text, None)
    }

    /// Trusts the text of a file, and the one that is about to replace it: a process that is killed in between leaves a file that
    /// is trusted.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub(crate) fn trust_change(&self, file: &Path, text: &str, next: &str) -> anyhow::Result<()> {
        self.write(file, text, Some(next))
    }

    fn write(&self, file: &Path, text: &str, next: Option<&str>) -> anyhow::Result<()> {
        let location = location(file);
        let record = Record {
            version: RECORD_VERSION,
            file: location.display().to_string(),
            digest: digest(&location, text),
            next: next.map(|next| digest(&location, next)),
        };
        private::create_folders(&self.folder)?;
        let mut new = tempfile::NamedTempFile::new_in(&self.folder)?;
        new.write_all(&serde_json::to_vec(&record)?)?;
        new.as_file().sync_all()?;
        new.persist(self.path_of(&location))?;
        Ok(())
    }

    /// Revokes the trust in a file, and returns whether there was any.
    ///
    /// # Errors
    /// If the record cannot be removed.
    pub(crate) fn revoke(&self, file: &Path) -> std::io::Result<bool> {
        match std::fs::remove_file(self.path_of(&location(file))) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true),
        }
    }

    /// Lists the trusted configurations in the order of their paths. Records that cannot be read are not trusted and
    /// left out.
    pub(crate) fn list(&self) -> Vec<Record> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut records: Vec<_> = entries.filter_map(|entry| read_record(&entry.path())).collect();
        records.sort_by(|a, b| a.file.cmp(&b.file));
        records
    }

    /// Returns the path of the record for a file. The record changes whenever the trust does.
    pub(crate) fn record_path(&self, file: &Path) -> PathBuf {
        self.path_of(&location(file))
    }

    fn path_of(&self, location: &Path) -> PathBuf {
        self.folder.join(format!("{}.json", Digest::of(location.as_os_str().as_encoded_bytes()).hex()))
    }
}

/// Returns the location of a configuration: its canonical folder, and its name there. A link under that name is not
/// followed, because paths in the file are relative to the folder of the name.
fn location(file: &Path) -> PathBuf {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    match (absolute.parent().and_then(|folder| folder.canonicalize().ok()), absolute.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

impl Record {
    fn covers(&self, digest: &Digest) -> bool {
        self.digest == *digest || self.next.as_ref() == Some(digest)
    }
}

fn digest(location: &Path, text: &str) -> Digest {
    let location = location.as_os_str().as_encoded_bytes();
    // The length keeps the end of the path apart from the beginning of the text.
    let head = format!("{DIGEST_CONTEXT}{}\n", location.len());
    Digest::of(&[head.as_bytes(), location, text.as_bytes()].concat())
}

/// Reads a record that only this user can have written; `None` for any other.
fn read_record(path: &Path) -> Option<Record> {
    let metadata = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    if !private::is_own(&metadata) || private::is_writable_by_others(&metadata) {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_RECORD_BYTES).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok().filter(|record: &Record| record.version == RECORD_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn trusts_one_text_at_one_location() {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore { folder: folder.path().join("state/trust") };
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a")).unwrap();
        std::fs::create_dir_all(at("b")).unwrap();
        symlink("a", at("to-a")).unwrap();
        let file = at("a/fumehood.toml");
        let other = at("b/fumehood.toml");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(store.status(&file, "x"), TrustStatus::Unknown);
        store.trust(&file, "x").unwrap();
        assert_eq!(store.status(&file, "x"), TrustStatus::Trusted);
        assert_eq!(store.status(&at("to-a/fumehood.toml"), "x"), TrustStatus::Trusted);
        assert_eq!(store.status(&file, "y"), TrustStatus::Changed);
        // Relative paths in it mean other files there.
        symlink(&file, &other).unwrap();
        assert_eq!(store.status(&other, "x"), TrustStatus::Unknown);
        assert_eq!(store.list().len(), 1);
        assert!(store.revoke(&file).unwrap() && !store.revoke(&file).unwrap());
        assert_eq!(store.status(&file, "x"), TrustStatus::Unknown);
        assert!(store.list().is_empty());
    }

    #[test]
    fn ignores_a_record_that_others_may_write() {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore { folder: folder.path().to_owned() };
        let file = folder.path().join("fumehood.toml");
        store.trust(&file, "x").unwrap();
        let record = store.record_path(&file);
        std::fs::set_permissions(&record, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(store.status(&file, "x"), TrustStatus::Unknown);
        std::fs::set_permissions(&record, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&record, "{\"version\":1}").unwrap();
        assert_eq!(store.status(&file, "x"), TrustStatus::Unknown);
    }
}
