//! Compiled code of components that were loaded lately, in the memory of this process.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use fumehood_core::digest::Digest;
use wasmtime::component::Component;

/// Maximum number of components.
const MAX_COMPONENTS: usize = 64;
/// Maximum size of their code together, in bytes. Code of a component that is still loaded takes no memory here.
const MAX_CODE_BYTES: usize = 256 << 20;

/// The code of components that were loaded lately: another tool of the same bytes, one for another tenant or a reload is
/// not compiled again, also without a cache on disk. Beyond the maximum, the code that was used least recently is left out.
#[derive(Default)]
pub(crate) struct RecentCode {
    /// The most recently used code is last.
    components: Mutex<VecDeque<(Digest, Component)>>,
}

impl fmt::Debug for RecentCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentCode").finish_non_exhaustive()
    }
}

impl RecentCode {
    /// Returns the code of the component with this digest.
    pub(crate) fn find(&self, digest: &Digest) -> Option<Component> {
        let mut components = self.components.lock().unwrap_or_else(PoisonError::into_inner);
        let found = components.iter().position(|(known, _)| known == digest)?;
        let entry = components.remove(found)?;
        let component = entry.1.clone();
        components.push_back(entry);
        Some(component)
    }

    /// Keeps the code of a component.
    pub(crate) fn keep(&self, digest: &Digest, component: &Component) {
        let mut components = self.components.lock().unwrap_or_else(PoisonError::into_inner);
        components.retain(|(known, _)| known != digest);
        components.push_back((*digest, component.clone()));
        let mut bytes: usize = components.iter().map(|(_, component)| code_bytes(component)).sum();
        while components.len() > MAX_COMPONENTS || bytes > MAX_CODE_BYTES {
            let Some((_, oldest)) = components.pop_front() else { break };
            bytes = bytes.saturating_sub(code_bytes(&oldest));
        }
    }
}

fn code_bytes(component: &Component) -> usize {
    let range = component.image_range();
    range.end.addr().saturating_sub(range.start.addr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{self, EngineKind, EngineSettings};

    #[test]
    fn the_least_recently_used_code_is_left_out() {
        let engine = engine::build(&EngineSettings::only_compiling(EngineKind::Synchronous)).unwrap();
        let component = Component::from_binary(&engine, b"\0asm\x0d\0\x01\0").unwrap();
        let digests: Vec<Digest> = (0..=MAX_COMPONENTS).map(|index| Digest::of(&index.to_be_bytes())).collect();
        let recent = RecentCode::default();
        for digest in &digests[..MAX_COMPONENTS] {
            recent.keep(digest, &component);
            recent.keep(digest, &component);
        }
        assert!(recent.find(&digests[0]).is_some());
        recent.keep(&digests[MAX_COMPONENTS], &component);
        assert!(recent.find(&digests[1]).is_none());
        assert!(recent.find(&digests[0]).is_some() && recent.find(&digests[2]).is_some());
    }
}
