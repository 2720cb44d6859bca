//! The powers of one tool.

use super::files::{Folder, FolderError, Quota, SCRATCH};

/// The powers of one tool. It starts from nothing, and only the operator's own code adds to it.
///
/// Whatever is not granted here is linked all the same, because language runtimes import all of WASI whether they use
/// it or not, and refuses at use: no folders, no network, no environment, no arguments, an empty stdin, clocks that
/// tick in whole milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    state: bool,
    folders: Vec<Folder>,
    scratch: Option<Quota>,
}

impl Grant {
    /// Nothing: no files, no network, no environment, no secrets, no agent state.
    #[must_use]
    pub const fn none() -> Self {
        Self { state: false, folders: Vec::new(), scratch: None }
    }

    /// Adds: may read the snapshot of the agent's state that comes with a call.
    #[must_use]
    pub const fn with_state(mut self) -> Self {
        self.state = true;
        self
    }

    /// Adds: sees a folder.
    ///
    /// # Errors
    /// If it sees another one in that place already.
    pub fn with_folder(mut self, folder: Folder) -> Result<Self, FolderError> {
        let taken = self.folders.iter().any(|other| other.guest() == folder.guest())
            || (self.scratch.is_some() && folder.guest() == SCRATCH);
        if taken {
            return Err(FolderError::Twice(folder.guest().to_owned()));
        }
        self.folders.push(folder);
        Ok(self)
    }

    /// Adds: has an empty folder of its own at [`SCRATCH`] for the time of one call.
    ///
    /// # Errors
    /// If it sees another folder in that place already.
    pub fn with_scratch(mut self, quota: Quota) -> Result<Self, FolderError> {
        if self.folders.iter().any(|folder| folder.guest() == SCRATCH) {
            return Err(FolderError::Twice(SCRATCH.to_owned()));
        }
        self.scratch = Some(quota);
        Ok(self)
    }

    /// The folders that it sees.
    #[must_use]
    pub fn folders(&self) -> &[Folder] {
        &self.folders
    }

    /// How much it may put into its scratch space, if it has any.
    #[must_use]
    pub const fn scratch(&self) -> Option<Quota> {
        self.scratch
    }

    /// May it read the snapshot of the agent's state?
    #[must_use]
    pub const fn state(&self) -> bool {
        self.state
    }
}

impl Default for Grant {
    fn default() -> Self {
        Self::none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_has_a_place_of_its_own() {
        let docs = || Folder::read("./docs:/docs").unwrap();
        let grant = Grant::none().with_folder(docs()).unwrap();
        assert_eq!(grant.clone().with_folder(docs()), Err(FolderError::Twice("/docs".to_owned())));
        let scratch = || Folder::read("./x:/scratch").unwrap();
        let twice = Err(FolderError::Twice(SCRATCH.to_owned()));
        assert_eq!(Grant::none().with_scratch(Quota::default()).unwrap().with_folder(scratch()), twice);
        assert_eq!(Grant::none().with_folder(scratch()).unwrap().with_scratch(Quota::default()), twice);
    }
}
