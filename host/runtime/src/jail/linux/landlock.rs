//! Access to files: a Landlock ruleset with a rule for each folder and file that the process was passed.

use std::fs::File;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::Reachable;

/// The newest Landlock ABI whose rights are restricted; an older kernel enforces those that it has.
const REVISION: ABI = ABI::V6;

/// Restricts this thread, and threads that it starts later. Returns whether the kernel enforces it.
///
/// TCP connections and listeners, signals and abstract Unix sockets to other processes are refused as well, where the
/// kernel can (Linux 6.7 and 6.12).
pub(super) fn restrict(reachable: &[Reachable<'_>]) -> Result<bool, String> {
    let failed = |error: landlock::RulesetError| format!("Landlock cannot be put in force: {error}");
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(REVISION))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(REVISION)))
        .and_then(|ruleset| ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal))
        .and_then(Ruleset::create)
        .map_err(failed)?;
    for Reachable { file, is_writable } in reachable {
        let allowed =
            access_rights(file, *is_writable).map_err(|error| format!("a folder cannot be looked at: {error}"))?;
        ruleset = ruleset.add_rule(PathBeneath::new(*file, allowed)).map_err(failed)?;
    }
    let status = ruleset.restrict_self().map_err(failed)?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// Returns the rights to an open file or folder. Rules for files take fewer rights than those for folders. Nothing may
/// be executed.
fn access_rights(file: &File, is_writable: bool) -> std::io::Result<BitFlags<AccessFs>> {
    let is_folder = file.metadata()?.is_dir();
    let wanted = if is_writable { AccessFs::from_all(REVISION) } else { AccessFs::from_read(REVISION) };
    let wanted = wanted & !BitFlags::from(AccessFs::Execute);
    Ok(if is_folder { wanted } else { wanted & AccessFs::from_file(REVISION) })
}
