//! Files of the host that are protected inside a granted folder, by identity and by name.
//!
//! A granted folder may contain the configuration of the host, or a component. Files in [`ProtectedFiles`] can then
//! neither be changed nor replaced, and secrets cannot be read either. A file is recognised by its identity and by its
//! name in its parent folder, so that one that does not exist yet cannot be planted. The set is plain data, because it
//! may be enforced in another process.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The end of the names of components.
const COMPONENT_SUFFIX: &[u8] = b".wasm";

/// The identity of a file, a folder or a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileId {
    /// The number of the device.
    pub device: u64,
    /// The inode number on the device.
    pub inode: u64,
}

/// A name in a folder, whether or not a file of that name exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderEntry {
    /// The folder.
    pub folder: FileId,
    /// The name, as bytes of the file system.
    pub name: Vec<u8>,
}

/// The role of a protected file for the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileRole {
    /// The configuration file.
    Configuration,
    /// The lock file with the approvals.
    Lock,
    /// A component that is or may be loaded.
    Component,
    /// A folder of which every component is or may be loaded. What else is in it is not protected.
    ComponentFolder,
    /// A program that the host starts, or a script that it runs.
    Program,
    /// A policy.
    Policy,
    /// The value of a secret, such as a key or a token.
    Secret,
    /// Internal files of the host: its state and its caches.
    Host,
}

impl FileRole {
    /// Returns whether tools may not even read the file.
    #[must_use]
    pub fn is_hidden(self) -> bool {
        matches!(self, Self::Secret | Self::Host)
    }

    fn description(self) -> &'static str {
        match self {
            Self::Configuration => "the configuration of the host",
            Self::Lock => "the lock with the approvals",
            Self::Component => "a component that the host loads",
            Self::ComponentFolder => "a folder of components that the host loads",
            Self::Program => "a program that the host starts",
            Self::Policy => "a policy of the host",
            Self::Secret => "a secret of the host",
            Self::Host => "a file of the host itself",
        }
    }
}

/// The use of a file by a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileUse {
    /// Reading the file.
    Read,
    /// Changing the contents, the size or the times of the file.
    Change,
}

/// A protected path, whether or not the file exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedFile {
    /// The role of the file.
    pub role: FileRole,
    /// The path as the operator wrote it, for messages.
    pub shown: String,
    /// Folders and links on the path. Replacing one of them would replace the file.
    pub way: Vec<FolderEntry>,
    /// The location of the file, and those of the links to it.
    pub names: Vec<FolderEntry>,
    /// The identities of the file and of the links to it. Those of a folder of components are looked for in the parents of
    /// names, too.
    pub ids: Vec<FileId>,
}

/// A set of files that no tool may change, regardless of the folders that it was granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedFiles(Vec<ProtectedFile>);

/// The error of an access to a protected file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protection {
    /// The role of the file.
    pub role: FileRole,
    /// The path as the operator wrote it.
    pub shown: String,
    /// True if the access is to a folder or a link on the path, not to the file itself.
    pub on_the_way: bool,
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = self.role.description();
        let shown = &self.shown;
        match (self.on_the_way, self.role.is_hidden()) {
            (true, _) => write!(f, "it leads to `{shown}`, {role}, which no tool may replace"),
            (false, true) => write!(f, "`{shown}` is {role}, which no tool may read or change"),
            (false, false) => write!(f, "`{shown}` is {role}, which no tool may change"),
        }
    }
}

impl ProtectedFiles {
    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a file, or replaces the one with the same path and role.
    pub fn add(&mut self, file: ProtectedFile) {
        match self.0.iter_mut().find(|known| (known.role, &known.shown) == (file.role, &file.shown)) {
            Some(known) => *known = file,
            None => self.0.push(file),
        }
    }

    /// Decides whether a name may be created, removed, replaced or moved.
    ///
    /// # Errors
    /// If the name is that of a protected file, of a temporary file with which programs replace one (`.NAME.suffix`),
    /// or of a folder or a link on the path to one.
    pub fn check_name(&self, folder: FileId, name: &[u8]) -> Result<(), Protection> {
        let is_on_the_way = |file: &&ProtectedFile| file.way.iter().any(|known| known.is_equal(folder, name));
        match self.find(folder, name) {
            Some(file) => Err(file.protection(false)),
            None => self.0.iter().find(is_on_the_way).map_or(Ok(()), |file| Err(file.protection(true))),
        }
    }

    /// Decides whether a file may be used, given its identity, its parent folder and its name there.
    ///
    /// # Errors
    /// If it is protected against that use.
    pub fn check_use(&self, wanted: FileUse, id: FileId, folder: FileId, name: &[u8]) -> Result<(), Protection> {
        let is_same = |file: &&ProtectedFile| file.ids.contains(&id) || file.is_named(folder, name);
        match self.0.iter().filter(is_same).find(|file| wanted == FileUse::Change || file.role.is_hidden()) {
            Some(file) => Err(file.protection(false)),
            None => Ok(()),
        }
    }

    fn find(&self, folder: FileId, name: &[u8]) -> Option<&ProtectedFile> {
        self.0.iter().find(|file| file.is_named(folder, name))
    }
}

impl ProtectedFile {
    fn is_named(&self, folder: FileId, name: &[u8]) -> bool {
        if self.role == FileRole::ComponentFolder && self.ids.contains(&folder) && is_component_name(name) {
            return true;
        }
        self.names.iter().any(|known| known.is_equal(folder, name) || known.is_temporary(folder, name))
    }

    fn protection(&self, on_the_way: bool) -> Protection {
        Protection { role: self.role, shown: self.shown.clone(), on_the_way }
    }
}

/// Returns whether a name ends with `.wasm`, or is that of a temporary file with which programs replace one of such a name.
fn is_component_name(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with(COMPONENT_SUFFIX) || (name.starts_with(b".") && contains(&name, b".wasm."))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

impl FolderEntry {
    /// Compares without case, because some file systems do.
    fn is_equal(&self, folder: FileId, name: &[u8]) -> bool {
        self.folder == folder && self.name.eq_ignore_ascii_case(name)
    }

    /// Returns whether the name is `.NAME.suffix`: a temporary file that programs rename to `NAME`.
    fn is_temporary(&self, folder: FileId, name: &[u8]) -> bool {
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
        fn entry(folder: FileId, name: &str) -> FolderEntry {
            FolderEntry { folder, name: name.as_bytes().to_vec() }
        }

        let mut files = ProtectedFiles::default();
        files.add(ProtectedFile {
            role,
            shown: name.to_owned(),
            way: vec![entry(HOME, "work")],
            names: vec![entry(WORK, name)],
            ids: ids.to_vec(),
        });
        files
    }

    #[test]
    fn protects_components_of_a_folder_there_or_not() {
        fn entry(folder: FileId, name: &[u8]) -> FolderEntry {
            FolderEntry { folder, name: name.to_vec() }
        }

        let mut files = ProtectedFiles::default();
        files.add(ProtectedFile {
            role: FileRole::ComponentFolder,
            shown: "tools".to_owned(),
            way: vec![entry(HOME, b"work")],
            names: vec![entry(WORK, b"tools")],
            ids: vec![FILE],
        });
        for name in ["new.wasm", "NEW.Wasm", ".wasm", ".new.wasm.x1", ".NEW.WASM.tmp"] {
            let error = files.check_name(FILE, name.as_bytes()).unwrap_err().to_string();
            assert_eq!(
                error, "`tools` is a folder of components that the host loads, which no tool may change",
                "{name}"
            );
            assert!(files.check_use(FileUse::Change, OTHER, FILE, name.as_bytes()).is_err(), "{name}");
            assert_eq!(files.check_use(FileUse::Read, OTHER, FILE, name.as_bytes()), Ok(()), "{name}");
            assert_eq!(files.check_name(OTHER, name.as_bytes()), Ok(()), "{name} elsewhere");
        }
        for name in ["notes.txt", "new.wasm.txt", "wasm", ".wasmer"] {
            assert_eq!(files.check_name(FILE, name.as_bytes()), Ok(()), "{name}");
        }
        assert!(files.check_name(WORK, b"tools").is_err() && files.check_name(HOME, b"work").is_err());
    }

    #[test]
    fn protects_names_of_missing_files() {
        let files = files(FileRole::Configuration, "fumehood.toml", &[]);
        for name in ["fumehood.toml", "FumeHood.toml", ".fumehood.toml.x1", ".fumehood.toml."] {
            assert!(files.check_name(WORK, name.as_bytes()).is_err(), "{name}");
        }
        for name in ["fumehood.toml2", ".fumehood.toml", "a.fumehood.toml.b", "work"] {
            assert_eq!(files.check_name(WORK, name.as_bytes()), Ok(()), "{name}");
        }
        assert_eq!(files.check_name(HOME, b"fumehood.toml"), Ok(()));
        let error = files.check_name(HOME, b"work").unwrap_err().to_string();
        assert_eq!(error, "it leads to `fumehood.toml`, the configuration of the host, which no tool may replace");
    }

    #[test]
    fn recognises_a_file_under_any_name() {
        let files = files(FileRole::Lock, "fumehood.lock", &[FILE]);
        let error = files.check_use(FileUse::Change, FILE, OTHER, b"second-name").unwrap_err().to_string();
        assert_eq!(error, "`fumehood.lock` is the lock with the approvals, which no tool may change");
        assert!(files.check_use(FileUse::Change, OTHER, WORK, b"fumehood.lock").is_err(), "a new file of that name");
        assert_eq!(files.check_use(FileUse::Read, FILE, WORK, b"fumehood.lock"), Ok(()));
        assert_eq!(files.check_use(FileUse::Change, OTHER, WORK, b"notes"), Ok(()));
    }

    #[test]
    fn secrets_cannot_be_read() {
        let files = files(FileRole::Secret, "token", &[FILE]);
        let error = files.check_use(FileUse::Read, FILE, OTHER, b"x").unwrap_err().to_string();
        assert_eq!(error, "`token` is a secret of the host, which no tool may read or change");
    }

    #[test]
    fn set_round_trips_through_json() {
        let files = files(FileRole::Component, "a.wasm", &[FILE]);
        let text = serde_json::to_string(&files).unwrap();
        assert_eq!(serde_json::from_str::<ProtectedFiles>(&text).unwrap(), files);
    }
}
