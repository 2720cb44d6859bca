//! The mount tree: an empty root, in which every granted folder is a mount of its own.
//!
//! No path leads out of a mount that has no parent: neither `/etc` nor `..` of a granted folder. Folders for reading are
//! mounted read-only, so that permission bits and times cannot be changed there either.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use rustix::fs::StatVfsMountFlags;
use rustix::process::{Resource, pivot_root};

use super::{Reachable, ReachableFolder, namespaces};
use crate::jail::program::{ProgramJail, Rights, Surrounding};

/// Folders over which the new root can be mounted until it is the root. No grant lies in one of them.
const MOUNT_POINTS: &[&str] = &["/sys", "/dev"];
/// The folder over which the new root of a program is mounted until it is the root. Nothing of it is shown to programs.
const PROGRAM_ROOT: &str = "/sys";
/// The descriptors of this process, by which the engine opens the compiled code that it was sent.
const DESCRIPTORS: &str = "/proc/self/fd";
/// The same for the root of a program, which has more of them.
const PROGRAM_ROOT_OPTIONS: &str = "size=64k,nr_inodes=4096,mode=0755";
/// Folders and links of the root of a program that lead to its temporary files and to its own descriptors.
const TEMPORARY: [&str; 2] = ["/tmp", "/dev/shm"];
const PROGRAM_LINKS: [(&str, &str); 4] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
];
/// Maximum number of symbolic links on the way to a file.
const MAX_LINKS: usize = 40;
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
    if namespaces::leave_mounts()? {
        super::set(Resource::Nproc, MAX_THREADS, MAX_THREADS)?;
    }
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

/// Gives this process, which has a mount namespace, a mount tree with the surroundings of a program and nothing else.
/// Returns whether the kernel permits it; if not, paths lead where they did before.
pub(super) fn enter_program_root(jail: &ProgramJail, surroundings: &[Surrounding]) -> bool {
    try_enter_program_root(jail, surroundings).is_ok()
}

fn try_enter_program_root(jail: &ProgramJail, surroundings: &[Surrounding]) -> io::Result<()> {
    let here = std::env::current_dir()?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    let root = Path::new(PROGRAM_ROOT);
    mount(Some("tmpfs"), root, Some("tmpfs"), restricted(), Some(PROGRAM_ROOT_OPTIONS))?;
    // What it may read of all processes, Landlock decides.
    show(root, Path::new("/proc"), Rights::Run)?;
    // Before what is shown below it.
    for place in TEMPORARY.into_iter().filter(|_| jail.temporary.is_some()) {
        let source = jail.temporary.as_deref().unwrap_or(root);
        let target = inside(root, Path::new(place));
        std::fs::create_dir_all(&target)?;
        bind_program(source, &target, Rights::Write)?;
    }
    let is_shown = |path: &Path| path.starts_with("/proc");
    for Surrounding { path, rights } in surroundings.iter().filter(|surrounding| !is_shown(&surrounding.path)) {
        show(root, path, *rights)?;
    }
    for (link, target) in PROGRAM_LINKS {
        std::os::unix::fs::symlink(target, inside(root, Path::new(link)))?;
    }
    rustix::process::chdir(root)?;
    pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    rustix::process::chdir("/")?;
    remount("/", MsFlags::MS_RDONLY)?;
    Ok(rustix::process::chdir(&here)?)
}

fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Makes a path of this system exist below `root`, with all symbolic links on the way to it, and mounts there what it
/// leads to.
fn show(root: &Path, path: &Path, rights: Rights) -> io::Result<()> {
    let mut here = PathBuf::from("/");
    let mut left: Vec<PathBuf> = parts(path);
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == Path::new("..") {
            here.pop();
            continue;
        }
        let next = here.join(&part);
        if let Ok(target) = std::fs::read_link(&next) {
            links += 1;
            if links > MAX_LINKS {
                return Err(io::Error::other("too many symbolic links"));
            }
            let link = inside(root, &next);
            if link.symlink_metadata().is_err() {
                std::os::unix::fs::symlink(&target, link)?;
            }
            if target.is_absolute() {
                here = PathBuf::from("/");
            }
            left.extend(parts(&target));
            continue;
        }
        here = next;
        if !left.is_empty() || here.is_dir() {
            make_folder(&inside(root, &here))?;
        }
    }
    let target = inside(root, &here);
    if rights == Rights::Empty {
        return Ok(());
    }
    if !here.is_dir() && !target.exists() {
        File::create_new(&target)?;
    }
    bind_program(&here, &target, rights)
}

/// Creates a folder, unless there is something already: a folder that is mounted shows what is below it.
fn make_folder(folder: &Path) -> io::Result<()> {
    match std::fs::create_dir(folder) {
        Err(error) if !folder.is_dir() => Err(error),
        _ => Ok(()),
    }
}

/// Returns the parts of a path, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let parts = path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
    parts.rev().map(|part| PathBuf::from(part.as_os_str())).collect()
}

/// Mounts a file or folder once more, read-only unless it may be written to.
fn bind_program(source: &Path, target: &Path, rights: Rights) -> io::Result<()> {
    let bind = |flags| mount(Some(source), target, None::<&str>, MsFlags::MS_BIND | flags, None::<&str>);
    match bind(MsFlags::empty()) {
        Err(Errno::EINVAL) => bind(MsFlags::MS_REC)?,
        ended => ended?,
    }
    // The kernel refuses to remount a file system with fewer restrictions than it has.
    let has = rustix::fs::statvfs(target)?.f_flag;
    let mut flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_NOSUID;
    flags.set(MsFlags::MS_NODEV, rights != Rights::Device || has.contains(StatVfsMountFlags::NODEV));
    flags.set(MsFlags::MS_NOEXEC, has.contains(StatVfsMountFlags::NOEXEC));
    let may_write = matches!(rights, Rights::Write | Rights::Device);
    flags.set(MsFlags::MS_RDONLY, !may_write || has.contains(StatVfsMountFlags::RDONLY));
    Ok(mount(None::<&str>, target, None::<&str>, flags, None::<&str>)?)
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
    let is_read_only = rustix::fs::statvfs(target)?.f_flag.contains(StatVfsMountFlags::RDONLY);
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
