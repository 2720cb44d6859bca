//! Blobs that are on their way into the store.

use std::io::{Seek as _, Write as _};

use fumehood_core::digest::Digest;
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use super::{StoreError, store_error};

/// Bytes of a blob that is not complete. Dropping it removes them.
#[derive(Debug)]
pub struct PendingBlob {
    file: NamedTempFile,
    hasher: Sha256,
    bytes: u64,
}

impl PendingBlob {
    pub(super) fn new(file: NamedTempFile) -> Self {
        Self { file, hasher: Sha256::new(), bytes: 0 }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(bytes).map_err(|source| store_error(self.file.path(), source))?;
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Removes all bytes, to begin again.
    ///
    /// # Errors
    /// If the file cannot be changed.
    pub fn restart(&mut self) -> Result<(), StoreError> {
        let file = self.file.as_file_mut();
        let emptied = file.set_len(0).and_then(|()| file.rewind());
        emptied.map_err(|source| store_error(self.file.path(), source))?;
        self.hasher = Sha256::new();
        self.bytes = 0;
        Ok(())
    }

    /// Returns the number of bytes so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the digest of the bytes so far.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let bytes: [u8; 32] = self.hasher.clone().finalize().into();
        Digest::from(bytes)
    }

    pub(super) fn into_file(self) -> NamedTempFile {
        self.file
    }
}
