//! Removal of everything in a folder, beneath it and nowhere else.

use std::ffi::CStr;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// Removes everything in a folder, and follows no link. Uses three descriptors, however deep the folder is.
///
/// Folders that lie deeper are moved up until they can be removed.
pub(super) fn remove_contents(root: impl AsFd) -> Result<(), Errno> {
    let mut moved = 0_u64;
    loop {
        let mut found = false;
        for entry in Dir::read_from(&root)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_self_or_parent(name) {
                continue;
            }
            found = true;
            if rustix::fs::unlinkat(&root, name, AtFlags::empty()).is_ok() {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let folder = rustix::fs::openat(&root, name, flags, Mode::empty())?;
            empty_folder(&folder, &root, &mut moved)?;
            rustix::fs::unlinkat(&root, name, AtFlags::REMOVEDIR)?;
        }
        if !found {
            return Ok(());
        }
    }
}

/// Empties one folder: removes its entries, and moves up those that are not empty.
fn empty_folder(folder: impl AsFd, root: impl AsFd, moved: &mut u64) -> Result<(), Errno> {
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_gone = is_self_or_parent(name)
            || rustix::fs::unlinkat(&folder, name, AtFlags::empty()).is_ok()
            || rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR).is_ok();
        if !is_gone {
            move_up(&folder, name, &root, moved)?;
        }
    }
    Ok(())
}

/// Moves a folder into `root`, under a name that is not in use.
fn move_up(folder: impl AsFd, name: &CStr, root: impl AsFd, moved: &mut u64) -> Result<(), Errno> {
    loop {
        *moved += 1;
        match rustix::fs::renameat_with(&folder, name, &root, format!("~{moved}"), RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            ended => return ended,
        }
    }
}

pub(super) fn is_self_or_parent(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn removes_deep_folders_and_follows_no_link() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("canary"), "alive").unwrap();
        let root = tempfile::tempdir().unwrap();
        let mut deep = File::open(root.path()).unwrap();
        for level in 0..2000 {
            std::os::unix::fs::symlink(outside.path(), root.path().join(format!("l{level}"))).unwrap();
            rustix::fs::mkdirat(&deep, "d", Mode::from_raw_mode(0o700)).unwrap();
            rustix::fs::symlinkat(outside.path(), &deep, "link").unwrap_or_default();
            deep = rustix::fs::openat(&deep, "d", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap().into();
        }
        std::fs::write(root.path().join("~1"), "in the way").unwrap();
        remove_contents(File::open(root.path()).unwrap()).unwrap();
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
        assert_eq!(std::fs::read_to_string(outside.path().join("canary")).unwrap(), "alive");
    }
}
