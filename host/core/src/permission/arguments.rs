//! Command line arguments: a list that the operator writes down.

/// The command line of one tool, which every call of it is given. Not to be confused with the arguments of a call.
///
/// It is handed over as it is. Most languages take the first one for the name of the program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandLine {
    arguments: Vec<String>,
}

/// A command line that cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandLineError {
    /// Too many arguments.
    #[error("there are {0} arguments; give at most {most}", most = CommandLine::MAX_ARGUMENTS)]
    TooMany(usize),
    /// Too many bytes.
    #[error("the arguments take {0} bytes; all together may have {most}", most = CommandLine::MAX_BYTES)]
    TooLarge(usize),
    /// One cannot be handed over.
    #[error("argument {0} holds a zero byte, which no argument may; leave it out")]
    ZeroByte(usize),
}

impl CommandLine {
    /// The most arguments.
    pub const MOST: usize = 256;
    /// The most that all of them may take together, in bytes.
    pub const MOST_BYTES: usize = 32 << 10;

    /// No arguments.
    #[must_use]
    pub const fn none() -> Self {
        Self { arguments: Vec::new() }
    }

    /// These arguments, in this order.
    ///
    /// # Errors
    /// If there are too many, too many bytes, or one holds a zero byte.
    pub fn new(arguments: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, CommandLineError> {
        let arguments: Vec<String> = arguments.into_iter().map(Into::into).collect();
        let bytes = arguments.iter().map(String::len).sum::<usize>();
        if arguments.len() > Self::MOST {
            return Err(CommandLineError::TooMany(arguments.len()));
        }
        if bytes > Self::MOST_BYTES {
            return Err(CommandLineError::TooLarge(bytes));
        }
        if let Some(at) = arguments.iter().position(|argument| argument.contains('\0')) {
            return Err(CommandLineError::ZeroByte(at + 1));
        }
        Ok(Self { arguments })
    }

    /// The arguments.
    #[must_use]
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_within_its_caps_is_kept_as_it_is() {
        let check = |arguments: &[&str], expected: &str| {
            let found = CommandLine::new(arguments.iter().copied());
            let found = found.map_or_else(|error| error.to_string(), |found| format!("{:?}", found.arguments()));
            assert_eq!(found, expected);
        };
        check(&[], "[]");
        check(&["tool", "--fast", ""], r#"["tool", "--fast", ""]"#);
        check(&["tool", "a\0b"], "argument 2 holds a zero byte, which no argument may; leave it out");
        check(&[""; 257], "there are 257 arguments; give at most 256");
        check(&[&"x".repeat(32_768), "y"], "the arguments take 32769 bytes; all together may have 32768");
        assert!(CommandLine::new(["x".repeat(32_768)]).is_ok());
        assert!(CommandLine::new([""; 256]).is_ok());
    }
}
