//! Paths that are written in a configuration, from where it lies.

use std::path::{Path, PathBuf};

/// A path as it is seen from the working folder, if it is written from `base`.
pub(crate) fn from(base: &Path, path: &Path) -> PathBuf {
    if base == Path::new(".") { path.to_owned() } else { base.join(path) }
}
