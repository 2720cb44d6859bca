//! The tool `list`.

use std::fs::{self, FileType};

use fumehood_guest::{ToolError, tool};
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::io_failure;
use crate::grants;

/// The kind of an entry in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link. It is only followed to what was granted.
    Link,
    /// Something that is never opened, such as a device.
    Other,
}

impl From<FileType> for Kind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            link if link.is_symlink() => Self::Link,
            folder if folder.is_dir() => Self::Folder,
            file if file.is_file() => Self::File,
            _ => Self::Other,
        }
    }
}

/// One thing in a folder.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Entry {
    /// Its name; for a granted folder its path.
    pub name: String,
    /// The kind of the entry.
    pub kind: Kind,
    /// The size of a file in bytes; null of everything else.
    pub bytes: Option<u64>,
}

/// The entries of a folder.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Listed {
    /// The entries, sorted by name.
    pub entries: Vec<Entry>,
    /// The number of entries that were left out.
    pub more: usize,
}

/// Lists what is in a folder, sorted by name. For / it lists the folders that can be used.
#[tool(title = "List a folder", read_only, idempotent, open_world = false)]
pub fn list(
    /// The absolute path of the folder.
    #[default("/".to_owned())]
    #[schemars(length(min = 1, max = 4096))]
    path: String,
    /// Maximum number of entries to return.
    #[default(200)]
    #[schemars(range(min = 1, max = 2000))]
    limit: usize,
) -> Result<Listed, ToolError> {
    let folders = grants::folders();
    if path == "/" && !folders.iter().any(|folder| folder == "/") {
        return roots(folders, limit);
    }
    let folder = grants::check_path(&path)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|error| io_failure("list", &folder, &error))? {
        names.push(entry.map_err(|error| io_failure("list", &folder, &error))?.file_name());
    }
    names.sort();
    let more = names.len().saturating_sub(limit);
    names.truncate(limit);
    let entry = |name: &std::ffi::OsString| {
        // It may have been removed since it was listed.
        let metadata = fs::symlink_metadata(folder.join(name)).ok()?;
        let kind = Kind::from(metadata.file_type());
        let bytes = (kind == Kind::File).then_some(metadata.len());
        Some(Entry { name: name.to_string_lossy().into_owned(), kind, bytes })
    };
    Ok(Listed { entries: names.iter().filter_map(entry).collect(), more })
}

fn roots(mut folders: Vec<String>, limit: usize) -> Result<Listed, ToolError> {
    if folders.is_empty() {
        return Err(grants::none_error());
    }
    folders.sort();
    let more = folders.len().saturating_sub(limit);
    folders.truncate(limit);
    let entry = |name| Entry { name, kind: Kind::Folder, bytes: None };
    Ok(Listed { entries: folders.into_iter().map(entry).collect(), more })
}

#[cfg(test)]
mod tests {
    use fumehood_guest::FailureKind;

    use super::*;
    use crate::grants::tests::Folder;

    #[test]
    fn lists_a_folder_by_name() {
        let folder = Folder::with(&[("b.txt", "bb"), ("a/inner.txt", "")]);
        let listed = list(folder.path(""), 10).unwrap();
        let entry = |name: &str, kind, bytes| Entry { name: name.to_owned(), kind, bytes };
        let all = vec![entry("a", Kind::Folder, None), entry("b.txt", Kind::File, Some(2))];
        assert_eq!(listed, Listed { entries: all, more: 0 });
        let first = list(folder.path(""), 1).unwrap();
        assert_eq!((first.entries.len(), first.more), (1, 1));
    }

    #[test]
    fn root_lists_the_granted_folders() {
        assert_eq!(list("/".to_owned(), 10).unwrap_err().kind(), FailureKind::Denied);
        let folder = Folder::with(&[]);
        assert_eq!(list("/".to_owned(), 10).unwrap().entries[0].name, folder.path(""));
    }

    #[test]
    fn reports_why_a_path_cannot_be_listed() {
        let folder = Folder::with(&[("a.txt", "")]);
        let kind = |path: String| list(path, 10).unwrap_err().kind();
        assert_eq!(kind(folder.path("absent")), FailureKind::InvalidArguments);
        assert_eq!(kind(folder.path("a.txt")), FailureKind::InvalidArguments);
        assert_eq!(kind(folder.path("..")), FailureKind::InvalidArguments);
        assert_eq!(kind("docs".to_owned()), FailureKind::InvalidArguments);
        assert_eq!(kind("/etc".to_owned()), FailureKind::Denied);
        assert_eq!(kind(format!("{}x", folder.path(""))), FailureKind::Denied);
    }
}
