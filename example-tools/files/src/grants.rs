//! The granted folders, and checks that a path is inside one of them.
//!
//! These checks only serve clearer messages. The host checks every path itself, and also resolves links.

use std::path::{Component, Path, PathBuf};

use fumehood_guest::ToolError;

/// Returns the paths of the granted folders.
pub(crate) fn folders() -> Vec<String> {
    granted_by_host()
}

#[cfg(target_arch = "wasm32")]
fn granted_by_host() -> Vec<String> {
    wasip2::filesystem::preopens::get_directories().into_iter().map(|(_, path)| path).collect()
}

/// Returns the folders that a test granted; natively there are no others.
#[cfg(not(target_arch = "wasm32"))]
fn granted_by_host() -> Vec<String> {
    #[cfg(test)]
    return tests::folders();
    #[cfg(not(test))]
    Vec::new()
}

/// Returns the path if it is absolute and inside a granted folder.
pub(crate) fn check_path(path: &str) -> Result<PathBuf, ToolError> {
    let folders = folders();
    if folders.is_empty() {
        return Err(none_error());
    }
    let listed = folders.join("`, `");
    let asked = Path::new(path);
    if !asked.is_absolute() {
        return Err(ToolError::invalid_arguments(format!("`{path}` is not absolute; the folders are `{listed}`")));
    }
    if asked.components().any(|part| part == Component::ParentDir) {
        return Err(ToolError::invalid_arguments(format!("`{path}` goes up by `..`; write the path without it")));
    }
    if path.contains('\0') {
        return Err(ToolError::invalid_arguments("a path has no NUL in it"));
    }
    if folders.iter().any(|folder| asked.starts_with(folder)) {
        return Ok(asked.to_owned());
    }
    Err(ToolError::denied(format!("`{path}` is in no folder that was granted; those are `{listed}`")))
}

/// Returns the error of a tool without any granted folder.
pub(crate) fn none_error() -> ToolError {
    ToolError::denied("no folder was granted; the operator can grant one")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::RefCell;
    use std::fs;

    use fumehood_guest::FailureKind;

    use super::*;

    thread_local! {
        static GRANTED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn folders() -> Vec<String> {
        GRANTED.with(|granted| granted.borrow().clone())
    }

    /// A folder with files, granted to the tests of one thread.
    pub(crate) struct Folder(tempfile::TempDir);

    impl Folder {
        pub(crate) fn with(files: &[(&str, &str)]) -> Self {
            let folder = Self(tempfile::tempdir().unwrap());
            for (name, text) in files {
                let path = folder.0.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            GRANTED.with(|granted| *granted.borrow_mut() = vec![folder.path("")]);
            folder
        }

        /// Returns the absolute path of an entry.
        pub(crate) fn path(&self, name: &str) -> String {
            let root = self.0.path().to_str().unwrap();
            if name.is_empty() { root.to_owned() } else { format!("{root}/{name}") }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            GRANTED.with(|granted| granted.borrow_mut().clear());
        }
    }

    #[test]
    fn accepts_only_paths_in_granted_folders() {
        let error = |path: &str| check_path(path).unwrap_err();
        assert_eq!(error("/docs/a").kind(), FailureKind::Denied);
        let folder = Folder::with(&[]);
        let root = folder.path("");
        assert_eq!(check_path(&root), Ok(PathBuf::from(&root)));
        assert!(check_path(&folder.path("a/./b")).is_ok());
        for (path, kind) in [
            ("/", FailureKind::Denied),
            ("/etc/passwd", FailureKind::Denied),
            (&format!("{root}2/a"), FailureKind::Denied),
            (&folder.path("../a"), FailureKind::InvalidArguments),
            (&folder.path("a/../b"), FailureKind::InvalidArguments),
            (&folder.path("a\0b"), FailureKind::InvalidArguments),
            ("a", FailureKind::InvalidArguments),
            ("", FailureKind::InvalidArguments),
        ] {
            assert_eq!(error(path).kind(), kind, "{path:?}");
        }
        assert!(error("/etc/passwd").message().contains(&root));
    }
}
