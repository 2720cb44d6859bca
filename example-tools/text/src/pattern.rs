//! Regular expressions from arguments.

use fumehood_guest::ToolError;
use regex::{Regex, RegexBuilder};

/// How many bytes a compiled pattern may take: much less than a call's memory.
const COMPILED_BYTES: usize = 2 << 20;

/// Compiles a pattern. `^` and `$` match at every line.
///
/// # Errors
///
/// If it is not a pattern, in words that point at the mistake, or is too large.
pub(crate) fn compile(pattern: &str, ignore_case: bool) -> Result<Regex, ToolError> {
    RegexBuilder::new(pattern)
        .case_insensitive(ignore_case)
        .multi_line(true)
        .size_limit(COMPILED_BYTES)
        .build()
        .map_err(|error| ToolError::invalid_arguments(format!("the pattern is not usable: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_pattern_is_explained() {
        let refusal = |pattern| compile(pattern, false).unwrap_err().message().to_owned();
        assert!(refusal("a(b").contains("unclosed group"));
        assert!(refusal("(?=x)").contains("look-around"));
        assert!(refusal(r"\w{200}{200}").contains("size limit"));
    }
}
