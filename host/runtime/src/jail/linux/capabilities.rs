//! Capabilities: a jailed process has none, with one exception.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits,
};

/// Lowers the effective set of this thread. What the process opens from now on, the kernel treats as opened by an
/// ordinary user: `/proc/self/pagemap` of such a process shows no physical addresses.
pub(super) fn lower() -> io::Result<()> {
    let sets = capabilities(None)?;
    change(sets, CapabilitySets { effective: CapabilitySet::empty(), ..sets })
}

/// Raises the effective set of this thread to all that is permitted, to set up the jail.
pub(super) fn raise() -> io::Result<()> {
    let sets = capabilities(None)?;
    change(sets, CapabilitySets { effective: sets.permitted, ..sets })
}

/// Drops all capabilities from every set of this thread but those in `kept`, irrevocably.
pub(super) fn drop_all_but(kept: CapabilitySet) -> io::Result<()> {
    let sets = capabilities(None)?;
    if sets.effective.contains(CapabilitySet::SETPCAP) {
        drop_bounding_set()?;
        lock_secure_bits()?;
    }
    clear_ambient_capability_set()?;
    let kept = sets.permitted & kept;
    change(sets, CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() })
}

/// Changes the sets, if there is something to change: a filter may end a process that tries, such as that of a service.
fn change(sets: CapabilitySets, wanted: CapabilitySets) -> io::Result<()> {
    if sets == wanted { Ok(()) } else { Ok(set_capabilities(None, wanted)?) }
}

fn drop_bounding_set() -> io::Result<()> {
    for number in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            // The kernel knows no capability of this number, and none above it.
            Err(Errno::INVAL) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Makes user id 0 an ordinary one for this process.
fn lock_secure_bits() -> io::Result<()> {
    let locked = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    Ok(set_capabilities_secure_bits(locked)?)
}

/// Returns the capability without which a process of root could not use these folders, if any belongs to another user.
pub(super) fn needed_for<'f>(mut folders: impl Iterator<Item = &'f File>) -> CapabilitySet {
    let user = rustix::process::geteuid().as_raw();
    let is_of_other_user = |folder: &File| folder.metadata().is_ok_and(|metadata| metadata.uid() != user);
    if folders.any(is_of_other_user) { CapabilitySet::DAC_OVERRIDE } else { CapabilitySet::empty() }
}
