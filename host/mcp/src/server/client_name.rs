//! Names of tools as clients accept them: at most 64 of `a-z`, `A-Z`, `0-9`, `_`, `-`.

use fumehood_core::digest::Digest;

/// The longest name that all clients accept, in bytes.
const LONGEST: usize = 64;
/// Hexadecimal digits that stand for what was cut off.
const DIGITS: usize = 12;

/// What clients call the tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Naming {
    /// By their full names, `component__tool`, which stay the same whatever else is served.
    #[default]
    Full,
    /// By their bare names, `tool`. Tools that share theirs with another keep their full names, all of them.
    Short,
}

/// The name under which clients see the tool of this full name: the name itself, or, if that is too long, its beginning
/// and a piece of its digest. The same name always becomes the same; the way back is a look into the catalogue.
pub(crate) fn for_clients(full_name: &str) -> String {
    if full_name.len() <= LONGEST {
        return full_name.to_owned();
    }
    let digits: String = Digest::of(full_name.as_bytes()).hex().chars().take(DIGITS).collect();
    let start: String = full_name.chars().take(LONGEST - DIGITS - 1).collect();
    format!("{start}-{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_stay_apart() {
        assert_eq!(for_clients("calculator__add"), "calculator__add");
        let longest = "a".repeat(64);
        assert_eq!(for_clients(&longest), longest);
        let long = |last: char| format!("{}__{}{last}", "n".repeat(64), "t".repeat(63));
        let (a, b) = (for_clients(&long('a')), for_clients(&long('b')));
        assert_eq!((a.len(), b.len()), (64, 64));
        assert_ne!(a, b);
        assert!(a.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-'), "{a}");
    }
}
