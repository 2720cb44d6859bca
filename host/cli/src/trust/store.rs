//! Which configurations the user trusts: one small file for each in the user's state folder.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use fumehood::Digest;
use serde::{Deserialize, Serialize};

use crate::exit::UsageError;

/// Set before what is hashed, so that the hash means nothing else anywhere.
const PURPOSE: &str = "fumehood trust 1\n";
/// The form that this program writes and reads.
const VERSION: u32 = 1;
/// Maximum size of a record, in bytes.
const MAX_RECORD_BYTES: u64 = 64 << 10;
/// What nobody but the owner may do with a record.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The records of what is trusted.
pub(crate) struct TrustStore {
    folder: PathBuf,
}

/// One trusted configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    version: u32,
    /// Where it is, for people.
    pub(crate) file: String,
    /// Over where it is and what it says.
    pub(crate) digest: Digest,
}

/// How a configuration stands to what is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrustStatus {
    /// It is trusted as it is.
    Trusted,
    /// It was trusted, and says something else now.
    Changed,
    /// It was never trusted, or the trust was taken back.
    Unknown,
}

impl TrustStore {
    /// The store of this user.
    ///
    /// # Errors
    /// If there is no home folder.
    pub(crate) fn of_user() -> Result<Self, UsageError> {
        let folder = crate::host::state_folder().ok_or_else(|| {
            let message = "there is no home folder to remember trust in; name the configuration with `--config FILE`";
            UsageError(message.to_owned())
        })?;
        Ok(Self { folder: folder.join("trust") })
    }

    /// How this text in this file stands.
    pub(crate) fn status(&self, file: &Path, text: &str) -> TrustStatus {
        let place = place(file);
        match read(&self.record(&place)) {
            Some(record) if record.digest == digest(&place, text) => TrustStatus::Trusted,
            Some(_) => TrustStatus::Changed,
            None => TrustStatus::Unknown,
        }
    }

    /// Trusts this text in this file, and nothing else in it.
    ///
    /// # Errors
    /// If that cannot be written.
    pub(crate) fn trust(&self, file: &Path, text: &str) -> anyhow::Result<()> {
        let place = place(file);
        let record = Record { version: VERSION, file: place.display().to_string(), digest: digest(&place, text) };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut new = tempfile::NamedTempFile::new_in(&self.folder)?;
        new.write_all(&serde_json::to_vec(&record)?)?;
        new.as_file().sync_all()?;
        new.persist(self.record(&place))?;
        Ok(())
    }

    /// Takes trust back. Whether there was any.
    ///
    /// # Errors
    /// If the record cannot be removed.
    pub(crate) fn revoke(&self, file: &Path) -> std::io::Result<bool> {
        match std::fs::remove_file(self.record(&place(file))) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true),
        }
    }

    /// All that is trusted, in the order of their files. What cannot be read is not trusted either, and left out.
    pub(crate) fn list(&self) -> Vec<Record> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut records: Vec<_> = entries.filter_map(|entry| read(&entry.path())).collect();
        records.sort_by(|a, b| a.file.cmp(&b.file));
        records
    }

    /// The file with the record, which changes whenever trust does.
    pub(crate) fn record_of(&self, file: &Path) -> PathBuf {
        self.record(&place(file))
    }

    fn record(&self, place: &Path) -> PathBuf {
        self.folder.join(format!("{}.json", Digest::of(place.as_os_str().as_encoded_bytes()).hex()))
    }
}

/// Where a configuration is: its folder with every link followed, and its name there. The name itself is not followed,
/// because paths in the file count from the folder that the name is in.
fn place(file: &Path) -> PathBuf {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    match (absolute.parent().and_then(|folder| folder.canonicalize().ok()), absolute.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

fn digest(place: &Path, text: &str) -> Digest {
    let place = place.as_os_str().as_encoded_bytes();
    // The length keeps the end of the path apart from the beginning of the text.
    let head = format!("{PURPOSE}{}\n", place.len());
    Digest::of(&[head.as_bytes(), place, text.as_bytes()].concat())
}

/// A record that only this user can have written.
fn read(path: &Path) -> Option<Record> {
    let metadata = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & WRITABLE_BY_OTHERS == 0;
    if !is_ours {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_RECORD_BYTES).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok().filter(|record: &Record| record.version == VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn trust_is_in_one_text_at_one_place() {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore { folder: folder.path().join("state/trust") };
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a")).unwrap();
        std::fs::create_dir_all(at("b")).unwrap();
        symlink("a", at("to-a")).unwrap();
        let (file, other) = (at("a/fumehood.toml"), at("b/fumehood.toml"));
        std::fs::write(&file, "x").unwrap();
        assert_eq!(store.status(&file, "x"), TrustStatus::Unknown);
        store.trust(&file, "x").unwrap();
        assert_eq!(store.status(&file, "x"), TrustStatus::Trusted);
        assert_eq!(store.status(&at("to-a/fumehood.toml"), "x"), TrustStatus::Trusted);
        assert_eq!(store.status(&file, "y"), TrustStatus::Changed);
        // Paths in it would lead elsewhere from there.
        symlink(&file, &other).unwrap();
        assert_eq!(store.status(&other, "x"), TrustStatus::Unknown);
        assert_eq!(store.list().len(), 1);
        assert!(store.revoke(&file).unwrap() && !store.revoke(&file).unwrap());
        assert_eq!(store.status(&file, "x"), TrustStatus::Unknown);
        assert!(store.list().is_empty());
    }

    #[test]
    fn a_record_that_others_may_write_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore { folder: folder.path().to_owned() };
        let file = folder.path().join("fumehood.toml");
        store.trust(&file, "x").unwrap();
        let record = store.record_of(&file);
        std::fs::set_permissions(&record, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(store.status(&file, "x"), TrustStatus::Unknown);
        std::fs::set_permissions(&record, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&record, "{\"version\":1}").unwrap();
        assert_eq!(store.status(&file, "x"), TrustStatus::Unknown);
    }
}
