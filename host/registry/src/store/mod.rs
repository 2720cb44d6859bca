//! The local store: components, manifests and signatures under their digests, with a record of each component.
//!
//! ```text
//! blobs/<sha256>                   the bytes, checked whenever they are read
//! records/<sha256>-<name>.json     one for each component and name
//! ```
//!
//! Every file appears as a whole or not at all. A process that is killed leaves temporary files at most, which the next one
//! removes.

mod blob;
mod record;

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fumehood_core::digest::Digest;

pub use blob::PendingBlob;
pub use record::{SignatureRecord, StoreRecord};

use crate::private_file;

/// Maximum size of a record, in bytes.
const MAX_RECORD_BYTES: u64 = 64 << 10;
/// Minimum age of a blob without a record before it is removed: another process may be about to write the record.
const MIN_ORPHAN_AGE: Duration = Duration::from_secs(3600);
const BLOBS: &str = "blobs";
const RECORDS: &str = "records";

/// A folder with components that only this user can read and write. Several processes may use it at once.
///
/// ```
/// use fumehood_registry::store::Store;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let store = Store::open(folder.path().join("store"))?;
/// let digest = store.put(b"the bytes of a component")?;
/// assert_eq!(store.blob(&digest, 1 << 20)?.as_deref(), Some(&b"the bytes of a component"[..]));
/// // Every file is compared with its digest.
/// assert!(store.verify()?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file or folder cannot be read or written.
    #[error("cannot use {path} in the store of components; check the free space, and that this user may write there")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file or folder is open to others.
    #[error(
        "{0} is a link, belongs to another user, or other users can access it; make it private (`chmod -R go-rwx`), \
         or use another folder for the store"
    )]
    NotPrivate(PathBuf),
    /// The bytes of a file do not have the digest that it is named after.
    #[error("{path} was changed: its digest does not match; remove the file and add the component again")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A file is larger than anything that belongs there.
    #[error("{path} has more than {maximum} bytes; remove it and add the component again")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The maximum, in bytes.
        maximum: u64,
    },
    /// A record cannot be read.
    #[error("cannot read the record {path}; remove it and add the component again")]
    Record {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: serde_json::Error,
    },
    /// A received blob has another digest than expected.
    #[error("expected the digest {expected}, got {found}; nothing was stored")]
    Digest {
        /// The expected digest.
        expected: Digest,
        /// The digest of the bytes.
        found: Digest,
    },
}

/// The files that [`Store::prune`] removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// Number of files.
    pub files: u64,
    /// Their size, in bytes.
    pub bytes: u64,
    /// True while files are only counted.
    is_dry_run: bool,
}

impl Store {
    /// Opens the store in `folder`, creates it if it does not exist, and removes what a killed process left.
    ///
    /// # Errors
    /// If it cannot be created, or if other users can access it.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let store = Self { folder: folder.into() };
        for folder in [store.folder.clone(), store.folder.join(BLOBS), store.folder.join(RECORDS)] {
            private_file::ensure_folder(&folder).map_err(|source| store_error(&folder, source))?;
        }
        for folder in [BLOBS, RECORDS].map(|name| store.folder.join(name)) {
            private_file::remove_abandoned(&folder).map_err(|source| store_error(&folder, source))?;
        }
        Ok(store)
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Begins to store a blob.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn begin(&self) -> Result<PendingBlob, StoreError> {
        let folder = self.folder.join(BLOBS);
        let file = private_file::temporary(&folder).map_err(|source| store_error(&folder, source))?;
        Ok(PendingBlob::new(file))
    }

    /// Publishes a blob whose bytes are complete.
    ///
    /// # Errors
    /// If the bytes do not have the expected digest, or the file cannot be written.
    pub fn commit(&self, blob: PendingBlob, expected: &Digest) -> Result<(), StoreError> {
        let found = blob.digest();
        if found != *expected {
            return Err(StoreError::Digest { expected: *expected, found });
        }
        let path = self.blob_path(expected);
        let file = blob.into_file();
        let persisted = file.as_file().sync_all().and_then(|()| file.persist(&path).map_err(|error| error.error));
        persisted.map_err(|source| store_error(&path, source))?;
        private_file::sync_folder(&self.folder.join(BLOBS)).map_err(|source| store_error(&path, source))
    }

    /// Stores bytes. Returns their digest.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn put(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::of(bytes);
        // What is there already may have been damaged: it is replaced.
        let path = self.blob_path(&digest);
        private_file::replace(&path, bytes).map_err(|source| store_error(&path, source))?;
        Ok(digest)
    }

    /// Reads a blob and checks its digest, its owner and its mode. Returns `None` if there is none.
    ///
    /// # Errors
    /// If the file cannot be read, was changed, is open to others, or has more than `max_bytes`.
    pub fn blob(&self, digest: &Digest, max_bytes: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.blob_path(digest);
        let Some(bytes) = read(&path, max_bytes)? else { return Ok(None) };
        if Digest::of(&bytes) == *digest { Ok(Some(bytes)) } else { Err(StoreError::Changed { path }) }
    }

    /// Returns the path of a blob, whether it is there or not.
    #[must_use]
    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(BLOBS).join(digest.hex())
    }

    /// Returns the size of a blob in bytes, or `None` if there is none. Its bytes are not looked at.
    ///
    /// # Errors
    /// If the file is open to others.
    pub fn blob_bytes(&self, digest: &Digest) -> Result<Option<u64>, StoreError> {
        let path = self.blob_path(digest);
        match private_file::open(&path).and_then(|file| file.metadata()) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(store_error(&path, source)),
        }
    }

    /// Returns whether a blob of this size is there. Its bytes are not looked at.
    #[must_use]
    pub fn has_blob(&self, digest: &Digest, bytes: u64) -> bool {
        private_file::open(&self.blob_path(digest))
            .and_then(|file| file.metadata())
            .is_ok_and(|metadata| metadata.len() == bytes)
    }

    /// Writes the record of a component, whose blobs must be there.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn put_record(&self, record: &StoreRecord) -> Result<(), StoreError> {
        let path = self.record_path(&record.reference.name(), &record.manifest);
        let json =
            serde_json::to_vec_pretty(record).map_err(|source| StoreError::Record { path: path.clone(), source })?;
        private_file::replace(&path, &json).map_err(|source| store_error(&path, source))
    }

    /// Reads the record of a component that was pulled under a name.
    ///
    /// # Errors
    /// If the file cannot be read, or is open to others.
    pub fn record(&self, name: &str, manifest: &Digest) -> Result<Option<StoreRecord>, StoreError> {
        read_record(&self.record_path(name, manifest))
    }

    /// Returns all records, and the errors of those that cannot be read.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn list(&self) -> Result<(Vec<StoreRecord>, Vec<StoreError>), StoreError> {
        let mut records = Vec::new();
        let mut errors = Vec::new();
        for path in self.files(RECORDS)? {
            match read_record(&path) {
                Ok(record) => records.extend(record),
                Err(error) => errors.push(error),
            }
        }
        records.sort_by(|a: &StoreRecord, b| (&a.reference, a.manifest).cmp(&(&b.reference, b.manifest)));
        Ok((records, errors))
    }

    /// Reads every blob and every record. Returns what is damaged or missing.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn verify(&self) -> Result<Vec<StoreError>, StoreError> {
        let (records, mut errors) = self.list()?;
        for path in self.files(BLOBS)? {
            let digest = path.file_name().and_then(|name| format!("sha256:{}", name.to_string_lossy()).parse().ok());
            let Some(digest) = digest else {
                errors.push(StoreError::Changed { path });
                continue;
            };
            errors.extend(self.blob(&digest, u64::MAX).err());
        }
        for digest in records.iter().flat_map(StoreRecord::blobs) {
            let path = self.blob_path(&digest);
            if !path.exists() {
                errors.push(StoreError::Io { path, source: io::ErrorKind::NotFound.into() });
            }
        }
        Ok(errors)
    }

    /// Removes every component whose manifest is not in `keep`, and blobs that belong to none and are not in `keep` themselves.
    /// Blobs that were stored in the last hour stay, because another process may be about to write their record.
    ///
    /// # Errors
    /// If a folder cannot be read, or a file cannot be removed.
    pub fn prune(&self, keep: &BTreeSet<Digest>) -> Result<PruneReport, StoreError> {
        self.prune_older_than(keep, MIN_ORPHAN_AGE, PruneReport::default())
    }

    /// Returns what [`Self::prune`] would remove, without removing it.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn prunable(&self, keep: &BTreeSet<Digest>) -> Result<PruneReport, StoreError> {
        let mut pruned =
            self.prune_older_than(keep, MIN_ORPHAN_AGE, PruneReport { is_dry_run: true, ..PruneReport::default() })?;
        pruned.is_dry_run = false;
        Ok(pruned)
    }

    fn prune_older_than(
        &self,
        keep: &BTreeSet<Digest>,
        min_age: Duration,
        mut pruned: PruneReport,
    ) -> Result<PruneReport, StoreError> {
        let mut used = keep.clone();
        let mut dropped = BTreeSet::new();
        for path in self.files(RECORDS)? {
            // A record that cannot be read says nothing about the blobs that it needs.
            let Some(record) = read_record(&path)? else { continue };
            if keep.contains(&record.manifest) {
                used.extend(record.blobs());
            } else {
                dropped.extend(record.blobs());
                pruned.remove(&path)?;
            }
        }
        for path in self.files(BLOBS)? {
            let hex = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let digest: Option<Digest> = format!("sha256:{hex}").parse().ok();
            let is_used = digest.is_some_and(|digest| used.contains(&digest));
            let is_dropped = digest.is_some_and(|digest| dropped.contains(&digest));
            let age =
                path.metadata().and_then(|metadata| metadata.modified()).ok().and_then(|time| time.elapsed().ok());
            if !is_used && (is_dropped || age.is_some_and(|age| age >= min_age)) {
                pruned.remove(&path)?;
            }
        }
        Ok(pruned)
    }

    fn record_path(&self, name: &str, manifest: &Digest) -> PathBuf {
        self.folder.join(RECORDS).join(StoreRecord::file_name(name, manifest))
    }

    /// Returns the files of a folder, without temporary ones.
    fn files(&self, folder: &str) -> Result<Vec<PathBuf>, StoreError> {
        let folder = self.folder.join(folder);
        let failed = |source| store_error(&folder, source);
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if !entry.file_name().to_string_lossy().starts_with(private_file::TEMPORARY_PREFIX) {
                files.push(entry.path());
            }
        }
        files.sort();
        Ok(files)
    }
}

impl PruneReport {
    fn remove(&mut self, path: &Path) -> Result<(), StoreError> {
        let bytes = path.metadata().map_or(0, |metadata| metadata.len());
        let removed = if self.is_dry_run { Ok(()) } else { std::fs::remove_file(path) };
        match removed {
            Ok(()) => {
                self.files += 1;
                self.bytes += bytes;
                Ok(())
            }
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(store_error(path, source)),
        }
    }
}

fn read_record(path: &Path) -> Result<Option<StoreRecord>, StoreError> {
    let Some(bytes) = read(path, MAX_RECORD_BYTES)? else { return Ok(None) };
    let record = serde_json::from_slice(&bytes);
    record.map(Some).map_err(|source| StoreError::Record { path: path.to_owned(), source })
}

fn read(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match private_file::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|source| store_error(path, source))?,
    };
    let size = file.metadata().map_err(|source| store_error(path, source))?.len();
    if size > max_bytes {
        return Err(StoreError::TooLarge { path: path.to_owned(), maximum: max_bytes });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // The file may grow while it is read; its digest then differs.
    file.take(max_bytes).read_to_end(&mut bytes).map_err(|source| store_error(path, source))?;
    Ok(Some(bytes))
}

fn store_error(path: &Path, source: io::Error) -> StoreError {
    match source.kind() {
        io::ErrorKind::PermissionDenied if source.raw_os_error().is_none() => StoreError::NotPrivate(path.to_owned()),
        _ => StoreError::Io { path: path.to_owned(), source },
    }
}
