//! Access to files: a Landlock ruleset with a rule for each folder and file that the process was passed.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::Reachable;

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
