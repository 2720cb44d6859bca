//! Documentation of components that export plain typed functions, taken from the WIT that they were built from.
//!
//! The component format has no place for doc comments, and most toolchains drop them. Without them a model sees only
//! types.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fumehood_core::text::sanitize::printable;
use fumehood_runtime::LoadError as ComponentError;
use wit_parser::{PackageMetadata, ParseError, Resolve, ResolveError};

/// Maximum size of the doc comments of a component, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// The members of the section that hold doc comments: those of functions and types, and those of fields and cases.
const DOCUMENTED: [&str; 2] = ["\"docs\":", "\"items\":"];

/// The doc comments of one WIT package. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct WitDocs {
    /// The content of a `package-docs` section.
    section: Arc<[u8]>,
}

/// Errors of reading the doc comments of a WIT package.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WitDocsError {
    /// The file or folder is not valid WIT.
    #[error("{path} is not valid WIT: {reason}")]
    Malformed {
        /// The file or folder.
        path: PathBuf,
        /// The error and its place.
        reason: String,
    },
    /// The package has no doc comments.
    #[error("{0} has no doc comments; write them with `///` above functions, types and fields")]
    Empty(PathBuf),
    /// The doc comments are too large.
    #[error("the doc comments of {path} have {found} bytes; the maximum is {MAX_BYTES}")]
    TooLarge {
        /// The file or folder.
        path: PathBuf,
        /// Their size in bytes.
        found: usize,
    },
}

fn malformed(path: &Path, reason: &str) -> WitDocsError {
    WitDocsError::Malformed { path: path.to_owned(), reason: printable(reason.trim()).into_owned() }
}

impl WitDocs {
    /// Reads a WIT file, or a folder with a WIT package and what that depends on in `deps`. Blocks on the disk.
    ///
    /// # Errors
    /// If it is not WIT, or has no doc comments.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, WitDocsError> {
        let path = path.as_ref();
        let mut resolve = Resolve::default();
        let (package, _) = match resolve.push_path(path) {
            Ok(read) => read,
            Err(error) => {
                let of_parser = error.downcast_ref::<ParseError>().map(|error| error.render(&resolve.source_map));
                let of_resolver =
                    || error.downcast_ref::<ResolveError>().map(|error| error.render(&resolve.source_map));
                let reason = of_parser.or_else(of_resolver).unwrap_or_else(|| format!("{error:#}"));
                return Err(malformed(path, &reason));
            }
        };
        let section = PackageMetadata::extract(&resolve, package).encode();
        let section = section.map_err(|error| malformed(path, &error.to_string()))?;
        let text = String::from_utf8_lossy(&section);
        if !DOCUMENTED.iter().any(|member| text.contains(member)) {
            return Err(WitDocsError::Empty(path.to_owned()));
        }
        if section.len() > MAX_BYTES {
            return Err(WitDocsError::TooLarge { path: path.to_owned(), found: section.len() });
        }
        Ok(Self { section: section.into() })
    }

    /// Embeds the doc comments in a component, in place of its own.
    ///
    /// # Errors
    /// If the bytes are not a component.
    pub fn embed(&self, component: &[u8]) -> Result<Vec<u8>, ComponentError> {
        fumehood_runtime::embed_docs(component, &self.section)
    }

    pub(crate) fn section(&self) -> Arc<[u8]> {
        Arc::clone(&self.section)
    }
}

impl std::fmt::Debug for WitDocs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WitDocs").field("bytes", &self.section.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<WitDocs, WitDocsError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("w.wit"), text).unwrap();
        let of_folder = WitDocs::read(folder.path());
        if let (Ok(of_folder), Ok(of_file)) = (&of_folder, WitDocs::read(folder.path().join("w.wit"))) {
            assert_eq!(*of_folder, of_file);
        }
        of_folder
    }

    #[test]
    fn doc_comments_become_a_section() {
        let docs = read("package a:b;\nworld w {\n  /// Runs it.\n  export run: func();\n}\n").unwrap();
        let expected = b"\x01{\"worlds\":{\"w\":{\"func_exports\":{\"run\":{\"docs\":\"Runs it.\"}}}}}";
        assert_eq!(&docs.section[..], expected);
    }

    #[test]
    fn bad_wit_is_refused_in_words() {
        assert!(read_error("package a:b;\nworld w {\n  export run: fun();\n}\n").contains("w.wit:3"), "with its line");
        assert!(read_error("package a:b;\nworld w {\n  export run: func();\n}\n").contains("has no doc comments"));
        assert!(read_error("").contains("is not valid WIT"));
        assert!(WitDocs::read("/no/such/folder").unwrap_err().to_string().contains("/no/such/folder"));
    }

    fn read_error(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }
}
