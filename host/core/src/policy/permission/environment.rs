//! Environment variables of a tool.

use super::GrantError;
use crate::call::quote;

/// The environment variables of one tool, in the order in which they were added.
///
/// The environment of the host is not inherited: to pass a variable on, the operator's own code reads it and adds it
/// here. Any other variable is unset for the tool, as in any program, and reading it is not a refusal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
pub struct Environment {
    variables: Vec<(String, String)>,
}

impl Environment {
    /// Maximum length of all names and values together, in bytes. A tool gets a copy whenever it reads them.
    pub const MAX_BYTES: usize = 32 << 10;

    /// Creates an empty environment.
    #[must_use]
    pub const fn none() -> Self {
        Self { variables: Vec::new() }
    }

    /// Adds one variable.
    ///
    /// # Errors
    /// If the name is invalid or taken, the value contains a zero byte, or there are too many bytes.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self, GrantError> {
        if !is_name(name) {
            return Err(GrantError::new(format!(
                "invalid variable name `{}`; expected letters, digits and `_`, not starting with a digit",
                quote(name)
            )));
        }
        if value.contains('\0') {
            return Err(GrantError::new(format!("the value of `{name}` contains a zero byte; remove it")));
        }
        if self.variables.iter().any(|(taken, _)| taken == name) {
            return Err(GrantError::new(format!("the variable `{name}` is given twice")));
        }
        let found = self.bytes() + name.len() + value.len();
        if found > Self::MAX_BYTES {
            return Err(GrantError::new(format!(
                "with `{}`, the variables have {found} bytes in total; the maximum is {}",
                quote(name),
                Self::MAX_BYTES
            )));
        }
        self.variables.push((name.to_owned(), value.to_owned()));
        Ok(self)
    }

    /// Adds one variable, written `NAME=value`. The value may be empty, and may contain `=`.
    ///
    /// # Errors
    /// If there is no `=`, or [`Self::with`] fails.
    pub fn with_line(self, line: &str) -> Result<Self, GrantError> {
        match line.split_once('=') {
            Some((name, value)) => self.with(name, value),
            None => Err(GrantError::new(format!(
                "`{}` has no value; expected `NAME=value` (the host's own environment is never passed on)",
                quote(line)
            ))),
        }
    }

    /// Returns the names and values.
    #[must_use]
    pub fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    fn bytes(&self) -> usize {
        self.variables.iter().map(|(name, value)| name.len() + value.len()).sum()
    }
}

fn is_name(name: &str) -> bool {
    let begins = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[&str], expected: &str) {
        let found = lines.iter().try_fold(Environment::none(), |environment, line| environment.with_line(line));
        let found = found.map_or_else(|error| error.to_string(), |found| format!("{:?}", found.variables()));
        assert!(found.contains(expected), "{lines:?}: {found}");
    }

    #[test]
    fn accepts_only_names_with_values() {
        check(&[], "[]");
        check(&["LANG=en", "_X1="], r#"[("LANG", "en"), ("_X1", "")]"#);
        check(&["OPTIONS=a=b"], r#"("OPTIONS", "a=b")"#);
        check(&["PATH"], "`PATH` has no value; expected `NAME=value`");
        check(&["=x"], "invalid variable name ``");
        check(&["1X=x"], "invalid variable name `1X`");
        check(&["A B=x"], "invalid variable name `A B`");
        check(&["Ä=x"], "invalid variable name `Ä`");
        check(&["A\u{1b}[2J=x"], "invalid variable name `A\\u{1b}[2J`");
        check(&["A=x\0y"], "the value of `A` contains a zero byte");
        check(&["A=1", "B=2", "A=1"], "`A` is given twice");
    }

    #[test]
    fn rejects_too_many_bytes_in_total() {
        let value = "x".repeat(Environment::MAX_BYTES - 2);
        let full = Environment::none().with("A", "").unwrap().with("B", &value).unwrap();
        let error = full.with("C", "").unwrap_err().to_string();
        assert_eq!(error, "with `C`, the variables have 32769 bytes in total; the maximum is 32768");
        check(&[&format!("{}=", "A".repeat(40_000))], "A…`, the variables have");
    }
}
