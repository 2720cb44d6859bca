//! Which folders this tool was given, and whether a path lies in one of them.
//!
//! The host decides that again for every path, and better: it knows where links lead. What is said here is only clearer.

use std::path::{Component, Path, PathBuf};

use fumehood_guest::ToolError;

/// The folders that were granted, as this tool sees them.
pub(crate) fn granted() -> Vec<String> {
    granted_by_host()
}

#[cfg(target_arch = "wasm32")]
fn granted_by_host() -> Vec<String> {
    wasip2::filesystem::preopens::get_directories().into_iter().map(|(_, path)| path).collect()
}

/// Natively only tests grant anything.
#[cfg(not(target_arch = "wasm32"))]
fn granted_by_host() -> Vec<String> {
    #[cfg(test)]
    return tests::granted();
    #[cfg(not(test))]
    Vec::new()
}

/// The path, if it is absolute and below a folder that was granted.
pub(crate) fn inside(path: &str) -> Result<PathBuf, ToolError> {
    let folders = granted();
    if folders.is_empty() {
        return Err(nothing());
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

/// Nothing at all was granted.
pub(crate) fn nothing() -> ToolError {
    ToolError::denied("no folder was granted; whoever runs this tool can grant it one")
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

    pub(super) fn granted() -> Vec<String> {
        GRANTED.with(|granted| granted.borrow().clone())
    }

    /// A folder with files in it, granted to the tests of one thread.
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

        /// The absolute path of something in it.
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
    fn only_what_lies_in_a_granted_folder_is_inside() {
        let error = |path: &str| inside(path).unwrap_err();
        assert_eq!(error("/docs/a").kind(), FailureKind::Denied);
        let folder = Folder::with(&[]);
        let root = folder.path("");
        assert_eq!(inside(&root), Ok(PathBuf::from(&root)));
        assert!(inside(&folder.path("a/./b")).is_ok());
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
