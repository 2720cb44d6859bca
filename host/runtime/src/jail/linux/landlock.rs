//! Access to files: a Landlock ruleset with a rule for each folder and file that the process was passed.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::Reachable;
use crate::jail::program::{ProgramJailReport, Rights, Surrounding};

/// The newest Landlock ABI whose rights are restricted; an older kernel enforces those that it has. Later ones add no
/// right.
const REVISION: ABI = ABI::V6;

/// Restricts this thread, and threads that it starts later. Returns whether the kernel enforces it.
///
/// TCP connections and listeners, signals and abstract Unix sockets to other processes are refused as well, where the
/// kernel can (Linux 6.7 and 6.12).
pub(super) fn restrict(reachable: &Reachable<'_>) -> Result<bool, String> {
    let failed = |error: landlock::RulesetError| format!("cannot apply Landlock: {error}");
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(REVISION))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(REVISION)))
        .and_then(|ruleset| ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal))
        .and_then(Ruleset::create)
        .map_err(failed)?;
    for folder in &reachable.folders {
        let rights = folder_rights(folder.is_writable);
        ruleset = ruleset.add_rule(PathBeneath::new(&*folder.file, rights)).map_err(failed)?;
    }
    for file in &reachable.files {
        ruleset = ruleset.add_rule(PathBeneath::new(*file, AccessFs::ReadFile)).map_err(failed)?;
    }
    let status = ruleset.restrict_self().map_err(failed)?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// Returns the rights below a folder. Nothing may be executed, and nothing created but files, folders and links.
fn folder_rights(is_writable: bool) -> BitFlags<AccessFs> {
    let never = AccessFs::Execute
        | AccessFs::IoctlDev
        | AccessFs::MakeBlock
        | AccessFs::MakeChar
        | AccessFs::MakeFifo
        | AccessFs::MakeSock;
    let wanted = if is_writable { AccessFs::from_all(REVISION) } else { AccessFs::from_read(REVISION) };
    wanted & !never
}

/// Returns the parts of a program's jail that Landlock of this kernel puts in force.
fn program_support() -> ProgramJailReport {
    let strict = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let files = strict().handle_access(AccessFs::from_all(ABI::V1)).and_then(Ruleset::create).is_ok();
    let connections = strict().handle_access(AccessNet::from_all(ABI::V4)).and_then(Ruleset::create).is_ok();
    let signals = strict().scope(Scope::Signal).and_then(Ruleset::create).is_ok();
    ProgramJailReport { files, connections, signals, ..ProgramJailReport::default() }
}

/// Restricts this process, which must have one thread, to the surroundings of a program and to one port of TCP.
pub(super) fn restrict_program(
    surroundings: &[Surrounding],
    proxy_port: Option<u16>,
) -> Result<ProgramJailReport, String> {
    let report = program_support();
    let failed = |error: landlock::RulesetError| format!("cannot apply Landlock: {error}");
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(REVISION))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(REVISION)))
        .and_then(|ruleset| ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal))
        .and_then(Ruleset::create)
        .map_err(failed)?;
    for Surrounding { path, rights } in surroundings {
        let rights = program_rights(*rights, path.is_dir());
        // A path that cannot be opened grants nothing.
        if let (false, Ok(file)) = (rights.is_empty(), PathFd::new(path)) {
            ruleset = ruleset.add_rule(PathBeneath::new(file, rights)).map_err(failed)?;
        }
    }
    if let Some(port) = proxy_port {
        ruleset = ruleset.add_rule(NetPort::new(port, AccessNet::ConnectTcp)).map_err(failed)?;
    }
    ruleset.restrict_self().map_err(failed)?;
    Ok(report)
}

/// Returns the rights of a program at a path, and below it if it is a folder. No devices or sockets can be created.
fn program_rights(rights: Rights, is_folder: bool) -> BitFlags<AccessFs> {
    let never = AccessFs::IoctlDev | AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::MakeSock;
    let wanted = match rights {
        Rights::Empty => BitFlags::empty(),
        Rights::Read => AccessFs::ReadFile | AccessFs::ReadDir,
        Rights::Run => AccessFs::from_read(REVISION),
        Rights::Device => AccessFs::ReadFile | AccessFs::WriteFile,
        Rights::Write => AccessFs::from_all(REVISION) & !never,
    };
    if is_folder { wanted } else { wanted & AccessFs::from_file(REVISION) }
}
