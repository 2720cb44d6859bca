//! Files of the host that stay out of reach inside a granted folder, decided over identities and names.
//!
//! A folder may be granted that holds the configuration of the host or a component: what is in [`ProtectedFiles`] is
//! then neither changed nor replaced, and secrets are not read either. A file is recognised by its identity and by its
//! name in its parent folder, so that one which does not exist yet cannot be planted. The set is plain data: whoever
//! enforces it may live in another process.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The identity of a file, a folder or a link: two of the same identity are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileId {
    /// The device that it lies on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

/// A name in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderEntry {
    /// The folder.
    pub folder: FileId,
    /// The name, in the bytes of the file system.
    pub name: Vec<u8>,
}

/// What a protected file is to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileRole {
    /// The configuration.
    Configuration,
    /// The approvals.
    Lock,
    /// A component that is loaded, or may be.
    Component,
    /// A program that the host starts, or a script of one.
    Program,
    /// A list of what is not allowed.
    Policy,
    /// The value of a secret: a key, a token.
    Secret,
    /// Files that the host keeps for itself: its state and its caches.
    Host,
}

impl FileRole {
    /// Whether tools may not even read it.
    #[must_use]
    pub fn is_hidden(self) -> bool {
        matches!(self, Self::Secret | Self::Host)
    }

    fn words(self) -> &'static str {
        match self {
            Self::Configuration => "the configuration of the host",
            Self::Lock => "the lock with the approvals",
            Self::Component => "a component that the host loads",
            Self::Program => "a program that the host starts",
            Self::Policy => "a policy of the host",
            Self::Secret => "a secret of the host",
            Self::Host => "a file of the host itself",
        }
    }
}

/// What a tool does with a file that it opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileUse {
    /// Reading it.
    Read,
    /// Changing what is in it, its size or its times.
    Change,
}

/// One protected path, whether or not there is a file at its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedFile {
    /// What it is to the host.
    pub role: FileRole,
    /// The path as the operator knows it, for messages.
    pub shown: String,
    /// Folders and links on the way to it. Whoever replaced one would replace the file.
    pub way: Vec<FolderEntry>,
    /// Where it lies: its own name, and those of the links to it.
    pub names: Vec<FolderEntry>,
    /// The identities of the file and of the links to it.
    pub ids: Vec<FileId>,
}

/// Files that no tool may change, whatever folders it was granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedFiles(Vec<ProtectedFile>);

/// Why a file stays out of reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protection {
    /// What the file is to the host.
    pub role: FileRole,
    /// The path as the operator knows it.
    pub shown: String,
    /// Whether a folder or a link on the way to the file was meant, and not the file itself.
    pub on_the_way: bool,
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (role, shown) = (self.role.words(), &self.shown);
        match (self.on_the_way, self.role.is_hidden()) {
            (true, _) => write!(f, "it leads to `{shown}`, {role}, which no tool may replace"),
            (false, true) => write!(f, "`{shown}` is {role}, which no tool may read or change"),
            (false, false) => write!(f, "`{shown}` is {role}, which no tool may change"),
        }
    }
}

impl ProtectedFiles {
    /// Whether nothing is protected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a file, or replaces what is known about one of the same path and role.
    pub fn add(&mut self, file: ProtectedFile) {
        match self.0.iter_mut().find(|known| (known.role, &known.shown) == (file.role, &file.shown)) {
            Some(known) => *known = file,
            None => self.0.push(file),
        }
    }

    /// Decides whether a name may be created, removed, replaced or moved.
    ///
    /// # Errors
    /// If the name is that of a protected file, of a file that a program makes on the way to replacing one
    /// (`.NAME.suffix`), or of a folder or a link that leads to one.
    pub fn check_name(&self, folder: FileId, name: &[u8]) -> Result<(), Protection> {
        let is_on_the_way = |file: &&ProtectedFile| file.way.iter().any(|known| known.is(folder, name));
        match self.named(folder, name) {
            Some(file) => Err(file.protection(false)),
            None => self.0.iter().find(is_on_the_way).map_or(Ok(()), |file| Err(file.protection(true))),
        }
    }

    /// Decides whether a file may be used, given its identity, the folder that it lies in and its name there.
    ///
    /// # Errors
    /// If it is protected against that use.
    pub fn check_use(&self, wanted: FileUse, id: FileId, folder: FileId, name: &[u8]) -> Result<(), Protection> {
        let is_refused = |file: &ProtectedFile| wanted == FileUse::Change || file.role.is_hidden();
        let meant = |file: &&ProtectedFile| file.ids.contains(&id) || file.is_named(folder, name);
        match self.0.iter().filter(meant).find(|file| is_refused(file)) {
            Some(file) => Err(file.protection(false)),
            None => Ok(()),
        }
    }

    fn named(&self, folder: FileId, name: &[u8]) -> Option<&ProtectedFile> {
        self.0.iter().find(|file| file.is_named(folder, name))
    }
}

impl ProtectedFile {
    fn is_named(&self, folder: FileId, name: &[u8]) -> bool {
        self.names.iter().any(|known| known.is(folder, name) || known.is_precursor(folder, name))
    }

    fn protection(&self, on_the_way: bool) -> Protection {
        Protection { role: self.role, shown: self.shown.clone(), on_the_way }
    }
}

impl FolderEntry {
    /// Some file systems take upper and lower case for one.
    fn is(&self, folder: FileId, name: &[u8]) -> bool {
        self.folder == folder && self.name.eq_ignore_ascii_case(name)
    }

    /// Whether it is `.NAME.suffix`: a file that is written first and then takes the name.
    fn is_precursor(&self, folder: FileId, name: &[u8]) -> bool {
        let rest = name.strip_prefix(b".").and_then(|rest| rest.split_at_checked(self.name.len()));
        self.folder == folder
            && rest.is_some_and(|(head, tail)| head.eq_ignore_ascii_case(&self.name) && tail.starts_with(b"."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: FileId = FileId { device: 1, inode: 1 };
    const WORK: FileId = FileId { device: 1, inode: 2 };
    const FILE: FileId = FileId { device: 1, inode: 3 };
    const OTHER: FileId = FileId { device: 1, inode: 4 };

    fn files(role: FileRole, name: &str, ids: &[FileId]) -> ProtectedFiles {
        let at = |folder, name: &str| FolderEntry { folder, name: name.as_bytes().to_vec() };
        let mut files = ProtectedFiles::default();
        files.add(ProtectedFile {
            role,
            shown: name.to_owned(),
            way: vec![at(HOME, "work")],
            names: vec![at(WORK, name)],
            ids: ids.to_vec(),
        });
        files
    }

    #[test]
    fn a_name_is_protected_before_there_is_a_file() {
        let files = files(FileRole::Configuration, "fumehood.toml", &[]);
        for name in ["fumehood.toml", "FumeHood.toml", ".fumehood.toml.x1", ".fumehood.toml."] {
            assert!(files.check_name(WORK, name.as_bytes()).is_err(), "{name}");
        }
        for name in ["fumehood.toml2", ".fumehood.toml", "a.fumehood.toml.b", "work"] {
            assert_eq!(files.check_name(WORK, name.as_bytes()), Ok(()), "{name}");
        }
        assert_eq!(files.check_name(HOME, b"fumehood.toml"), Ok(()));
        let said = files.check_name(HOME, b"work").unwrap_err().to_string();
        assert_eq!(said, "it leads to `fumehood.toml`, the configuration of the host, which no tool may replace");
    }

    #[test]
    fn a_file_is_known_by_its_identity_under_any_name() {
        let files = files(FileRole::Lock, "fumehood.lock", &[FILE]);
        let said = files.check_use(FileUse::Change, FILE, OTHER, b"second-name").unwrap_err().to_string();
        assert_eq!(said, "`fumehood.lock` is the lock with the approvals, which no tool may change");
        assert!(files.check_use(FileUse::Change, OTHER, WORK, b"fumehood.lock").is_err(), "a new file of that name");
        assert_eq!(files.check_use(FileUse::Read, FILE, WORK, b"fumehood.lock"), Ok(()));
        assert_eq!(files.check_use(FileUse::Change, OTHER, WORK, b"notes"), Ok(()));
    }

    #[test]
    fn a_secret_is_not_even_read() {
        let files = files(FileRole::Secret, "token", &[FILE]);
        let said = files.check_use(FileUse::Read, FILE, OTHER, b"x").unwrap_err().to_string();
        assert_eq!(said, "`token` is a secret of the host, which no tool may read or change");
    }

    #[test]
    fn the_set_travels_as_data() {
        let files = files(FileRole::Component, "a.wasm", &[FILE]);
        let text = serde_json::to_string(&files).unwrap();
        assert_eq!(serde_json::from_str::<ProtectedFiles>(&text).unwrap(), files);
    }
}
