//! Regular expressions in arguments.

use fumehood_guest::ToolError;
use regex::{Regex, RegexBuilder};

/// Maximum size of a compiled pattern, in bytes: much less than a call's memory.
const MAX_COMPILED_BYTES: usize = 2 << 20;

/// Compiles a pattern. `^` and `$` match at every line.
///
/// # Errors
///
/// If the pattern is invalid, with a message that points at the mistake, or too large.
pub(crate) fn compile(pattern: &str, ignore_case: bool) -> Result<Regex, ToolError> {
    RegexBuilder::new(pattern)
        .case_insensitive(ignore_case)
        .multi_line(true)
        .size_limit(MAX_COMPILED_BYTES)
        .build()
        .map_err(|error| ToolError::invalid_arguments(format!("the pattern is not usable: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explains_an_invalid_pattern() {
        let refusal = |pattern| compile(pattern, false).unwrap_err().message().to_owned();
        assert!(refusal("a(b").contains("unclosed group"));
        assert!(refusal("(?=x)").contains("look-around"));
        assert!(refusal(r"\w{200}{200}").contains("size limit"));
    }
}
