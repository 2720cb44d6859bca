//! The layers of Linux: resource limits, no new privileges, an empty mount tree, Landlock, no capabilities, and seccomp.

mod capabilities;
mod landlock;
mod mounts;
mod namespaces;
mod seccomp;
mod supervisor;

use std::io;

use fumehood_platform::process;
use rustix::process::{Resource, Rlimit};
use rustix::thread::CapabilitySet;

pub(crate) use seccomp::Profile;
pub(super) use supervisor::{OnSignal, supervise};

use super::program::{ProgramJail, ProgramJailReport, ProgramLimits, Surrounding};
use super::{JailReport, Reachable, ReachableFolder, Resources};

/// Standard input, output and error.
const STANDARD_STREAMS: usize = 3;

impl Resources {
    fn apply(&self) -> io::Result<()> {
        set(Resource::Data, self.data, self.data)?;
        set(Resource::Core, 0, 0)?;
        set(Resource::Nofile, self.descriptors, self.descriptors)?;
        if let Some(bytes) = self.address_space {
            set(Resource::As, bytes, bytes)?;
        }
        if let Some(bytes) = self.file_size {
            set(Resource::Fsize, bytes, bytes)?;
        }
        if let Some(seconds) = self.cpu_seconds {
            // The signal of the soft limit (`SIGXCPU`) identifies the reason; the hard limit kills.
            set(Resource::Cpu, seconds, seconds.saturating_add(1))?;
        }
        Ok(())
    }
}

impl ProgramLimits {
    fn apply(&self, has_user_namespace: bool) -> io::Result<()> {
        // The kernel counts processes for each user namespace, and for each user in the first one.
        if has_user_namespace {
            set(Resource::Nproc, self.processes, self.processes)?;
        }
        set(Resource::Data, self.memory, self.memory)?;
        set(Resource::Core, 0, 0)?;
        set(Resource::Nofile, self.open_files, self.open_files)?;
        set(Resource::Fsize, self.file_size, self.file_size)?;
        set(Resource::Cpu, self.cpu_seconds, self.cpu_seconds.saturating_add(1))?;
        Ok(())
    }
}

/// Sets a limit, but never raises one that is in force.
fn set(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let now = rustix::process::getrlimit(resource);
    let at_most = |wanted: u64| Some(now.maximum.map_or(wanted, |most| most.min(wanted)));
    rustix::process::setrlimit(resource, Rlimit { current: at_most(soft), maximum: at_most(hard) })?;
    Ok(())
}

/// Restricts this process. Neither Landlock nor capabilities restrict threads that exist already, so this must come
/// first. The descriptors of the folders may be replaced by others of the same folders.
///
/// # Errors
/// If a layer that the kernel supports cannot be put in force. Layers that it lacks are in the report.
pub(crate) fn enter(
    reachable: &mut Reachable<'_>,
    resources: &Resources,
    profile: Profile,
) -> Result<JailReport, String> {
    let no_capabilities = |error: io::Error| format!("cannot drop capabilities: {error}");
    resources.apply().map_err(|error| format!("cannot set resource limits: {error}"))?;
    rustix::thread::set_no_new_privs(true).map_err(|error| format!("cannot set `no_new_privs`: {error}"))?;
    capabilities::raise().map_err(no_capabilities)?;
    let is_empty = mounts::enter_empty_root(reachable);
    let landlock = landlock::restrict(reachable)?;
    let may_write = reachable.folders.iter().any(|folder| folder.is_writable);
    // Without Landlock, what a process of root could keep would lead to the files of all users.
    let folders = reachable.folders.iter().filter(|_| landlock).map(|folder| &*folder.file);
    capabilities::drop_all_but(capabilities::needed_for(folders)).map_err(no_capabilities)?;
    let seccomp = seccomp::restrict(profile, may_write)?;
    let paths = is_empty || (seccomp && reachable.folders.is_empty());
    Ok(JailReport { landlock, seccomp, paths })
}

/// Restricts this process to the surroundings of a program, before it becomes that program. It must have one thread only.
///
/// # Errors
/// If a part that the kernel supports cannot be put in force, or the proxy is gone.
pub(super) fn enter_program(jail: &ProgramJail, surroundings: &[Surrounding]) -> Result<ProgramJailReport, String> {
    close_fds::set_fds_cloexec(STANDARD_STREAMS as i32, &[]);
    supervisor::unblock_signals().map_err(|error| format!("cannot unblock signals: {error}"))?;
    let mounts = namespaces::leave_mounts();
    let network = namespaces::leave_network(jail.proxy.as_ref().map(|proxy| proxy.port));
    let has_network = network.is_ok();
    if let Some(proxy) = &jail.proxy {
        proxy.report(network.ok().flatten()).map_err(|error| format!("cannot reach the proxy: {error}"))?;
    }
    let has_root = mounts.is_ok() && mounts::enter_program_root(jail, surroundings);
    jail.limits.apply(matches!(mounts, Ok(true))).map_err(|error| format!("cannot set resource limits: {error}"))?;
    rustix::thread::set_no_new_privs(true).map_err(|error| format!("cannot set `no_new_privs`: {error}"))?;
    let landlock = landlock::restrict_program(surroundings, jail.proxy.as_ref().map(|proxy| proxy.port))?;
    capabilities::drop_all_but(CapabilitySet::empty()).map_err(|error| format!("cannot drop capabilities: {error}"))?;
    let connections = landlock.connections || has_network;
    let system_calls = seccomp::restrict_program(jail.proxy.is_some() && connections, has_root)?;
    Ok(ProgramJailReport { connections, system_calls, paths: has_root, network: has_network, ..landlock })
}

/// Restricts this process further, once it has loaded its code: from now on no memory becomes executable, and no system
/// call that takes a path succeeds unless the process has folders.
///
/// # Errors
/// If the kernel has filters and refuses another one.
pub(crate) fn end_setup(jail: JailReport, has_folders: bool) -> Result<(), String> {
    if jail.seccomp { seccomp::end_setup(has_folders) } else { Ok(()) }
}

/// Opens nothing with more rights than an ordinary user, up to [`enter`]. Must come before the process starts threads.
///
/// # Errors
/// If the kernel refuses it.
pub(crate) fn lower_capabilities() -> io::Result<()> {
    capabilities::lower()
}

/// Drops descriptors that the host itself inherited without `FD_CLOEXEC`, which arrive here too: if there are any, it
/// executes this program once more with the same arguments. Must be the first step of the process.
///
/// # Errors
/// If the program cannot be executed once more. If it can, this function does not return.
pub(crate) fn leave_inherited_descriptors() -> io::Result<()> {
    // Reading the list opens one more.
    let open = std::fs::read_dir("/proc/self/fd")?.count();
    if open <= STANDARD_STREAMS + 1 {
        return Ok(());
    }
    close_fds::set_fds_cloexec(3, &[]);
    let error = process::replace_with("/proc/self/exe".into(), std::env::args_os().skip(1));
    Err(io::Error::other(format!("cannot start the process again: {error}")))
}
