//! Command line arguments of a tool.

use super::GrantError;

/// The command line of one tool, the same for every call. Not to be confused with the arguments of a call.
///
/// It is passed unchanged. Most languages interpret the first argument as the name of the program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
pub struct CommandLine {
    arguments: Vec<String>,
}

impl CommandLine {
    /// Maximum number of arguments.
    pub const MAX_ARGUMENTS: usize = 256;
    /// Maximum length of all arguments together, in bytes.
    pub const MAX_BYTES: usize = 32 << 10;

    /// Creates an empty command line.
    #[must_use]
    pub const fn none() -> Self {
        Self { arguments: Vec::new() }
    }

    /// Creates a command line of these arguments.
    ///
    /// # Errors
    /// If there are too many arguments, too many bytes, or one contains a zero byte.
    pub fn new(arguments: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, GrantError> {
        let arguments: Vec<String> = arguments.into_iter().map(Into::into).collect();
        let bytes = arguments.iter().map(String::len).sum::<usize>();
        if arguments.len() > Self::MAX_ARGUMENTS {
            return Err(GrantError::new(format!(
                "there are {} arguments; the maximum is {}",
                arguments.len(),
                Self::MAX_ARGUMENTS
            )));
        }
        if bytes > Self::MAX_BYTES {
            let max = Self::MAX_BYTES;
            return Err(GrantError::new(format!("the arguments have {bytes} bytes in total; the maximum is {max}")));
        }
        if let Some(at) = arguments.iter().position(|argument| argument.contains('\0')) {
            return Err(GrantError::new(format!("argument {} contains a zero byte; remove it", at + 1)));
        }
        Ok(Self { arguments })
    }

    /// Returns the arguments.
    #[must_use]
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_a_list_within_its_limits() {
        fn check(arguments: &[&str], expected: &str) {
            let found = CommandLine::new(arguments.iter().copied());
            let found = found.map_or_else(|error| error.to_string(), |found| format!("{:?}", found.arguments()));
            assert_eq!(found, expected);
        }

        check(&[], "[]");
        check(&["tool", "--fast", ""], r#"["tool", "--fast", ""]"#);
        check(&["tool", "a\0b"], "argument 2 contains a zero byte; remove it");
        check(&[""; 257], "there are 257 arguments; the maximum is 256");
        check(&[&"x".repeat(32_768), "y"], "the arguments have 32769 bytes in total; the maximum is 32768");
        assert!(CommandLine::new(["x".repeat(32_768)]).is_ok());
        assert!(CommandLine::new([""; 256]).is_ok());
    }
}
