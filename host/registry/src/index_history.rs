//! The newest list of each index that was read, so that an old one is noticed when it is given out later.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use fumehood_core::digest::Digest;
use fumehood_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::index::{Index, IndexError};
use crate::private_file;
use crate::signature::KeyId;

/// Maximum size of a record, in bytes.
const MAX_RECORD_BYTES: u64 = 64 << 10;

/// The times of the newest lists that were read, in a folder that only its owner can access, for each place and key.
#[derive(Debug, Clone)]
pub struct IndexHistory {
    folder: PathBuf,
}

/// The newest list of one place that one key signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Newest {
    place: String,
    key: KeyId,
    issued_at: Timestamp,
}

impl IndexHistory {
    /// Opens the history in `folder`, which is created if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created, or if other users can access it.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, IndexError> {
        let folder = folder.into();
        private_file::ensure_folder(&folder).map_err(|error| unusable(&folder, &error))?;
        Ok(Self { folder })
    }

    /// Checks that no newer list of this place (a URL or a path) and key was read before, and remembers this one. The list must have
    /// been verified.
    ///
    /// # Errors
    /// If a newer one was read before, or the record of it cannot be read or written.
    pub fn check(&self, place: &str, key: KeyId, index: &Index) -> Result<(), IndexError> {
        self.check_among(place, key, &[], index)
    }

    /// Like [`Self::check`], also against the lists that these other keys signed: all of them are trusted for the index, so that
    /// an old list of a key which was replaced is as old as any.
    ///
    /// # Errors
    /// Like [`Self::check`].
    pub fn check_among(&self, place: &str, key: KeyId, others: &[KeyId], index: &Index) -> Result<(), IndexError> {
        for signer in others.iter().chain([&key]) {
            let (path, before) = self.newest(place, *signer)?;
            if let Some(before) = before.filter(|before| index.issued_at < *before) {
                return Err(IndexError::Older {
                    name: index.name.clone(),
                    issued_at: display(index.issued_at),
                    newest: display(before),
                    record: path,
                });
            }
        }
        let (path, before) = self.newest(place, key)?;
        if before == Some(index.issued_at) {
            return Ok(());
        }
        let newest = Newest { place: place.to_owned(), key, issued_at: index.issued_at };
        let json = serde_json::to_vec_pretty(&newest).map_err(io::Error::from);
        let written = json.and_then(|json| private_file::replace(&path, &json));
        written.map_err(|error| unusable(&path, &error))
    }

    /// Returns the path of the record of a place and key, and the time of the newest list that was read.
    fn newest(&self, place: &str, key: KeyId) -> Result<(PathBuf, Option<Timestamp>), IndexError> {
        let digest = Digest::of(format!("{key}\n{place}").as_bytes()).hex();
        let path = self.folder.join(format!("{digest}.json"));
        let newest = read(&path).map_err(|error| unusable(&path, &error))?;
        let newest = newest.filter(|newest| newest.place == place && newest.key == key);
        Ok((path, newest.map(|newest| newest.issued_at)))
    }
}

fn read(path: &Path) -> io::Result<Option<Newest>> {
    let file = match private_file::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_RECORD_BYTES).read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from)
}

fn unusable(path: &Path, error: &io::Error) -> IndexError {
    IndexError::History { path: path.to_owned(), reason: error.to_string() }
}

/// Returns a time in RFC 3339, in words that an operator can compare.
fn display(time: Timestamp) -> String {
    // Times that a calendar of four digits does not have are written as the last one that it has.
    const LAST: u64 = 253_402_300_799_999;
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(time.0.min(LAST))).to_string()
}
