//! Removal of everything in a folder, beneath it and nowhere else.

use std::ffi::OsStr;
use std::io;

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;

/// Removes everything in a folder, and follows no link. Uses few descriptors, however deep the folder is.
///
/// Folders that lie deeper are moved up until they can be removed.
pub(super) fn remove_contents(root: &Dir) -> io::Result<()> {
    let mut moved = 0_u64;
    loop {
        let mut found = false;
        for entry in root.entries()? {
            let name = entry?.file_name();
            found = true;
            if root.remove_file_or_symlink(&name).is_ok() {
                continue;
            }
            empty_folder(&root.open_dir_nofollow(&name)?, root, &mut moved)?;
            root.remove_dir(&name)?;
        }
        if !found {
            return Ok(());
        }
    }
}

/// Empties one folder: removes its entries, and moves up those that are not empty.
fn empty_folder(folder: &Dir, root: &Dir, moved: &mut u64) -> io::Result<()> {
    for entry in folder.entries()? {
        let name = entry?.file_name();
        let is_gone = folder.remove_file_or_symlink(&name).is_ok() || folder.remove_dir(&name).is_ok();
        if !is_gone {
            move_up(folder, &name, root, moved)?;
        }
    }
    Ok(())
}

/// Moves a folder into `root`, under a name that is not in use.
fn move_up(folder: &Dir, name: &OsStr, root: &Dir, moved: &mut u64) -> io::Result<()> {
    loop {
        *moved += 1;
        let free = format!("~{moved}");
        match root.symlink_metadata(&free) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return folder.rename(name, root, &free),
            Ok(_) => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cap_std::ambient_authority;

    #[test]
    fn removes_deep_folders_and_follows_no_link() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("canary"), "alive").unwrap();
        let root = tempfile::tempdir().unwrap();
        let top = Dir::open_ambient_dir(root.path(), ambient_authority()).unwrap();
        let mut deep = top.try_clone().unwrap();
        for level in 0..2000 {
            top.symlink_contents(outside.path(), format!("l{level}")).unwrap();
            deep.create_dir("d").unwrap();
            deep.symlink_contents(outside.path(), "link").unwrap();
            deep = deep.open_dir("d").unwrap();
        }
        std::fs::write(root.path().join("~1"), "in the way").unwrap();
        remove_contents(&top).unwrap();
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
        assert_eq!(std::fs::read_to_string(outside.path().join("canary")).unwrap(), "alive");
    }
}
