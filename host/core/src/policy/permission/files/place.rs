//! Checks on canonical paths: which folders of the host may be granted at all.

use std::path::{Path, PathBuf};

use super::folder::{Access, Folder};

/// Virtual file systems of the kernel. They contain no ordinary files, and some of their files expose this process.
const SYSTEM_FOLDERS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// A folder with its canonical path.
#[derive(Debug, Clone)]
pub struct Place<'a> {
    /// The granted folder.
    pub folder: &'a Folder,
    /// The absolute path, with all symbolic links resolved.
    pub canonical: PathBuf,
}

/// Errors of folders that may not be granted. Paths are as the operator wrote them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// The root folder.
    #[error("`{0}` is the root of the file system; grant only the folder that the tool needs")]
    Root(PathBuf),
    /// A folder in or above a virtual file system of the kernel.
    #[error("`{folder}` is in {system}, which exposes this process and the machine; grant an ordinary folder")]
    System {
        /// The granted folder.
        folder: PathBuf,
        /// The virtual file system.
        system: &'static str,
    },
    /// A folder that overlaps with one of the host itself.
    #[error("`{folder}` overlaps {own}, which has files of the host; grant a separate folder")]
    Own {
        /// The granted folder.
        folder: PathBuf,
        /// The host's own folder.
        own: PathBuf,
    },
    /// Two overlapping folders, one of them granted for writing.
    #[error(
        "`{inner}` is the same folder as `{outer}` or inside it, and one of them is granted for writing; grant only \
         the outer folder, or separate folders"
    )]
    Overlap {
        /// The inner folder.
        inner: PathBuf,
        /// The outer folder.
        outer: PathBuf,
    },
}

/// Decides whether these folders may be granted to one tool, given the host's own folders. All paths are canonical.
///
/// # Errors
/// If one of them may not be granted, or two of them overlap and one is for writing.
pub fn check_places(places: &[Place<'_>], own: &[PathBuf]) -> Result<(), PlaceError> {
    for (index, place) in places.iter().enumerate() {
        check_alone(place, own)?;
        for other in places.iter().take(index) {
            check_pair(place, other)?;
        }
    }
    Ok(())
}

fn check_alone(place: &Place<'_>, own: &[PathBuf]) -> Result<(), PlaceError> {
    let folder = || place.folder.host().to_owned();
    if place.canonical == Path::new("/") {
        return Err(PlaceError::Root(folder()));
    }
    if let Some(system) = SYSTEM_FOLDERS.into_iter().find(|system| is_overlapping(&place.canonical, Path::new(system)))
    {
        return Err(PlaceError::System { folder: folder(), system });
    }
    match own.iter().find(|own| is_overlapping(&place.canonical, own)) {
        Some(own) => Err(PlaceError::Own { folder: folder(), own: own.clone() }),
        None => Ok(()),
    }
}

fn check_pair(one: &Place<'_>, other: &Place<'_>) -> Result<(), PlaceError> {
    let both_read = one.folder.access() == Access::Read && other.folder.access() == Access::Read;
    if both_read || !is_overlapping(&one.canonical, &other.canonical) {
        return Ok(());
    }
    let (inner, outer) = if one.canonical.starts_with(&other.canonical) { (one, other) } else { (other, one) };
    Err(PlaceError::Overlap { inner: inner.folder.host().to_owned(), outer: outer.folder.host().to_owned() })
}

fn is_overlapping(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(grants: &[(&str, bool)], own: &[&str]) -> Result<(), PlaceError> {
        let folders = grants.iter().enumerate().map(|(index, (path, write))| {
            let text = format!("{path}:/{index}");
            if *write { Folder::write(&text) } else { Folder::read(&text) }.unwrap()
        });
        let folders: Vec<_> = folders.collect();
        let place = |folder| Place { folder, canonical: Folder::host(folder).to_owned() };
        let places: Vec<_> = folders.iter().map(place).collect();
        check_places(&places, &own.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    #[test]
    fn folders_of_the_system_are_never_granted() {
        assert!(matches!(check(&[("/", false)], &[]), Err(PlaceError::Root(_))));
        for path in ["/proc", "/proc/self", "/sys/kernel", "/dev", "/dev/shm"] {
            assert!(matches!(check(&[(path, false)], &[]), Err(PlaceError::System { .. })), "{path}");
        }
        assert_eq!(check(&[("/process", false), ("/srv/dev", true)], &[]), Ok(()));
    }

    #[test]
    fn the_hosts_own_folders_are_never_granted() {
        let own = ["/home/a/.config/it"];
        for path in ["/home/a/.config/it", "/home/a/.config/it/deeper", "/home/a", "/home"] {
            assert!(matches!(check(&[(path, false)], &own), Err(PlaceError::Own { .. })), "{path}");
        }
        assert_eq!(check(&[("/home/a/.config/item", true), ("/home/a/docs", true)], &own), Ok(()));
    }

    #[test]
    fn rejects_overlap_with_a_writable_folder() {
        fn overlaps(grants: &[(&str, bool)]) -> bool {
            matches!(check(grants, &[]), Err(PlaceError::Overlap { .. }))
        }

        assert!(overlaps(&[("/a", false), ("/a", true)]));
        assert!(overlaps(&[("/a", true), ("/a/b", false)]));
        assert!(overlaps(&[("/a/b", true), ("/c", false), ("/a", false)]));
        assert!(overlaps(&[("/a/b", true), ("/a", true)]));
        assert!(!overlaps(&[("/a", false), ("/a/b", false)]));
        assert!(!overlaps(&[("/a/b", true), ("/a/bc", false)]));
    }

    #[test]
    fn error_names_the_folders_and_the_fix() {
        let error = check(&[("/a", false), ("/a/b", true)], &[]).unwrap_err().to_string();
        for part in ["`/a/b`", "`/a`", "grant only the outer folder"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
