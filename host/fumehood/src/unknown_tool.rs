//! The answer to a call of a tool that is not there.

use fumehood_core::error_kind::ErrorKind;
use fumehood_core::result::CallError;

/// Unknown names are answered with at most this many known ones.
const SUGGESTIONS: usize = 20;
/// Characters of an unknown name that are repeated: as many as the longest full name may have.
const LONGEST_NAME: usize = 130;

/// The error for a name that no tool has, with the names of some that there are.
pub(crate) fn error<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> CallError {
    let mut known: Vec<_> = known.collect();
    known.sort_unstable();
    let hint = match known.get(..SUGGESTIONS) {
        _ if known.is_empty() => "no tools are loaded".to_owned(),
        None => format!("the tools are: {}", known.join(", ")),
        Some(first) => format!("some of the {} tools are: {}", known.len(), first.join(", ")),
    };
    let name: String = fumehood_core::sanitize::printable(name).chars().take(LONGEST_NAME).collect();
    CallError::new(ErrorKind::UnknownTool, format!("there is no tool `{name}`")).with_hint(hint)
}
