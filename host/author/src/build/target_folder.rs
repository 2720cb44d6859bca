//! The folder of compiled files of a project in Rust: one that the projects of a user share, or the project's own.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use fumehood_platform::private;

use super::BuildError;

/// File of a shared folder that builds lock, with the path of the project that was built last.
const LAST_PROJECT: &str = "last-project";

/// A folder of compiled files. While it exists, no other project is built in it.
#[derive(Debug)]
pub(super) struct TargetFolder {
    path: PathBuf,
    /// The file of a shared folder, which is locked.
    last_project: Option<File>,
}

impl TargetFolder {
    /// Returns the folder of one project alone.
    pub(super) fn own(path: PathBuf) -> Self {
        Self { path, last_project: None }
    }

    /// Opens a folder of several projects, and waits for other builds in it.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(super) fn shared(path: PathBuf) -> Result<Self, BuildError> {
        private::create_folders(&path).map_err(|source| BuildError::io("create", &path, source))?;
        let file = path.join(LAST_PROJECT);
        let failed = |source| BuildError::io("lock", &file, source);
        let options = private::write_options().read(true).create(true).truncate(false).open(&file);
        let last_project = options.map_err(failed)?;
        match last_project.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let _unseen = writeln!(io::stderr(), "waiting for another build in {}", path.display());
                last_project.lock().map_err(failed)?;
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        Ok(Self { path, last_project: Some(last_project) })
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Records that `project` is built next. If another one was built last, calls `clean` before, which removes what is
    /// there of a package with the name of this project's: cargo takes the files of packages with one name and version
    /// for each other's, and those of libraries with one name replace each other.
    ///
    /// # Errors
    /// If `clean` fails, or the record cannot be read or written.
    pub(super) fn claim(
        &mut self,
        project: &Path,
        clean: impl FnOnce(&Path) -> Result<(), BuildError>,
    ) -> Result<(), BuildError> {
        let Some(file) = &mut self.last_project else { return Ok(()) };
        let failed = |source| BuildError::io("write", &self.path.join(LAST_PROJECT), source);
        let project = project.canonicalize().unwrap_or_else(|_| project.to_owned());
        let project = project.as_os_str().as_encoded_bytes();
        let mut last = Vec::new();
        file.read_to_end(&mut last).map_err(failed)?;
        if last == project {
            return Ok(());
        }
        clean(&self.path)?;
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(project)).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a build of the project cleans the folder.
    fn cleans(folder: &Path, project: &str) -> bool {
        let mut is_clean = false;
        let mut target = TargetFolder::shared(folder.to_owned()).unwrap();
        let claimed = target.claim(Path::new(project), |_| {
            is_clean = true;
            Ok(())
        });
        claimed.unwrap();
        is_clean
    }

    #[test]
    fn files_of_another_project_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let cleaned = ["/a", "/a", "/b", "/a", "/a/b"].map(|project| cleans(folder.path(), project));
        assert_eq!(cleaned, [true, false, true, true, true]);
        let mut target = TargetFolder::shared(folder.path().to_owned()).unwrap();
        let failed = target.claim(Path::new("/c"), |path| Err(BuildError::Component(path.display().to_string())));
        assert!(failed.is_err());
        drop(target);
        assert!(!cleans(folder.path(), "/a/b"), "a failure changes nothing");
    }

    #[test]
    fn builds_wait_for_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let first = TargetFolder::shared(folder.path().to_owned()).unwrap();
        let other = File::open(folder.path().join(LAST_PROJECT)).unwrap();
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        drop(first);
        other.try_lock().unwrap();
    }
}
