//! The mount tree: an empty root, in which every granted folder is a mount of its own.
//!
//! No path leads out of a mount that has no parent: neither `/etc` nor `..` of a granted folder. Folders for reading are
//! mounted read-only, so that permission bits and times cannot be changed there either.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use rustix::process::{Resource, getegid, geteuid, pivot_root};

use super::{Reachable, ReachableFolder};

/// Folders over which the new root can be mounted until it is the root. No grant lies in one of them.
const MOUNT_POINTS: &[&str] = &["/sys", "/dev"];
/// The descriptors of this process, by which the engine opens the compiled code that it was sent.
const DESCRIPTORS: &str = "/proc/self/fd";
/// Room for the mount points of the granted folders, and for nothing else.
const ROOT_OPTIONS: &str = "size=4k,nr_inodes=512,mode=0755";
/// Maximum number of threads. The kernel counts them for each user namespace.
const MAX_THREADS: u64 = 1024;

/// Moves this process to an empty mount tree, and replaces the descriptors of the folders by those of their mounts there.
/// Returns whether the kernel permits it; if not, paths lead where they did before.
pub(super) fn enter_empty_root(reachable: &mut Reachable<'_>) -> bool {
    let Ok(mounted) = try_enter(&reachable.folders) else { return false };
    for (folder, mounted) in reachable.folders.iter_mut().zip(mounted) {
        *folder.file = mounted;
    }
    true
}

fn try_enter(folders: &[ReachableFolder<'_>]) -> io::Result<Vec<File>> {
    let paths = folders.iter().map(|folder| path_of(folder.file)).collect::<io::Result<Vec<_>>>()?;
    leave_mount_namespace()?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    let root = MOUNT_POINTS.iter().map(Path::new).find(|path| path.is_dir()).ok_or(io::ErrorKind::NotFound)?;
    mount(Some("tmpfs"), root, Some("tmpfs"), restricted(), Some(ROOT_OPTIONS))?;
    bind(Path::new(DESCRIPTORS), &root.join(DESCRIPTORS.trim_start_matches('/')), false)?;
    let mut mounted = Vec::new();
    for (index, (folder, path)) in folders.iter().zip(&paths).enumerate() {
        let target = root.join(index.to_string());
        bind(path, &target, folder.is_writable)?;
        let file = File::open(&target)?;
        if !is_same(&file, folder.file)? {
            return Err(io::Error::other("the path of a granted folder now leads to a different folder"));
        }
        mounted.push(file);
    }
    rustix::process::chdir(root)?;
    // Stacks the old root on the new one, from where the next line takes it away.
    pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    rustix::process::chdir("/")?;
    remount("/", MsFlags::MS_RDONLY)?;
    Ok(mounted)
}

/// Gives this process a mount namespace of its own. It needs a user namespace for that, unless it may administer the
/// system.
fn leave_mount_namespace() -> io::Result<()> {
    let user = geteuid().as_raw();
    let group = getegid().as_raw();
    match unshare(CloneFlags::CLONE_NEWNS) {
        Err(Errno::EPERM) => {}
        ended => return Ok(ended?),
    }
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    // Its own user and group have the same numbers there. The kernel asks for the first line before the last.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    super::set(Resource::Nproc, MAX_THREADS, MAX_THREADS)
}

/// Mounts a folder once more. A folder that holds mounts takes them along, where the kernel does not permit to leave
/// them out.
fn bind(source: &Path, target: &Path, is_writable: bool) -> io::Result<()> {
    std::fs::create_dir_all(target)?;
    let bind = |flags| mount(Some(source), target, None::<&str>, MsFlags::MS_BIND | flags, None::<&str>);
    match bind(MsFlags::empty()) {
        Err(Errno::EINVAL) => bind(MsFlags::MS_REC)?,
        ended => ended?,
    }
    // A file system that is read-only stays so, and the kernel refuses to remount it otherwise.
    let is_read_only = rustix::fs::statvfs(target)?.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
    let flags = if is_writable && !is_read_only { MsFlags::empty() } else { MsFlags::MS_RDONLY };
    remount(target, flags)
}

fn remount(target: impl AsRef<Path>, flags: MsFlags) -> io::Result<()> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | restricted() | flags;
    Ok(mount(None::<&str>, target.as_ref(), None::<&str>, flags, None::<&str>)?)
}

fn restricted() -> MsFlags {
    MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC
}

fn path_of(folder: &File) -> io::Result<PathBuf> {
    std::fs::read_link(Path::new(DESCRIPTORS).join(folder.as_raw_fd().to_string()))
}

fn is_same(one: &File, other: &File) -> io::Result<bool> {
    let one = one.metadata()?;
    let other = other.metadata()?;
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}
