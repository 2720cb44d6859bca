//! The languages of tools, and the interfaces that tools export.

use std::fmt;
use std::str::FromStr;

/// A language that a tool can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Language {
    /// Rust, compiled by cargo.
    Rust,
    /// Python, with componentize-py.
    Python,
    /// JavaScript, with ComponentizeJS.
    Javascript,
    /// TypeScript, which becomes JavaScript.
    Typescript,
    /// C, with the compiler of Zig or of the WASI SDK.
    C,
}

/// The interface that a component exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// The contract `fumehood:tool`: the component describes its tools itself.
    Contract,
    /// Plain functions of the project's own WIT: types become schemas, and doc comments descriptions.
    Typed,
}

/// The error of a name that is not in a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{found}`; expected one of: {expected}")]
pub struct UnknownNameError {
    what: &'static str,
    found: String,
    expected: String,
}

impl Language {
    /// All languages.
    pub const ALL: [Self; 5] = [Self::Rust, Self::Python, Self::Javascript, Self::Typescript, Self::C];

    /// Returns the name that [`FromStr`] reads.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::Javascript => "javascript",
            Self::Typescript => "typescript",
            Self::C => "c",
        }
    }

    /// Returns the name of the manifest of a project.
    pub(crate) const fn manifest(self) -> &'static str {
        match self {
            Self::Rust => "Cargo.toml",
            Self::Python => "pyproject.toml",
            Self::Javascript | Self::Typescript => "package.json",
            Self::C => "tool.toml",
        }
    }

    /// Returns the extensions of source files.
    pub(crate) const fn source_extensions(self) -> &'static [&'static str] {
        match self {
            Self::Rust => &["rs"],
            Self::Python => &["py"],
            Self::Javascript => &["js", "mjs", "cjs", "ts", "mts", "json"],
            Self::Typescript => &["ts", "mts", "js", "mjs", "cjs", "json"],
            Self::C => &["c", "h"],
        }
    }
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 2] = [Self::Contract, Self::Typed];

    /// Returns the name that [`FromStr`] reads.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Contract => "contract",
            Self::Typed => "typed",
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Language {
    type Err = UnknownNameError;

    /// Reads the name of a language, or the extension of its files.
    fn from_str(text: &str) -> Result<Self, UnknownNameError> {
        match text {
            "rs" => Ok(Self::Rust),
            "py" => Ok(Self::Python),
            "js" => Ok(Self::Javascript),
            "ts" => Ok(Self::Typescript),
            _ => find(Self::ALL, Self::as_str, "language", text),
        }
    }
}

impl FromStr for Dialect {
    type Err = UnknownNameError;

    fn from_str(text: &str) -> Result<Self, UnknownNameError> {
        find(Self::ALL, Self::as_str, "dialect", text)
    }
}

fn find<T: Copy, const N: usize>(
    all: [T; N],
    name: impl Fn(T) -> &'static str,
    what: &'static str,
    text: &str,
) -> Result<T, UnknownNameError> {
    let found = all.into_iter().find(|one| name(*one) == text);
    found.ok_or_else(|| UnknownNameError {
        what,
        found: text.chars().take(40).collect(),
        expected: all.map(name).join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_name_and_lists_them_for_others() {
        for language in Language::ALL {
            assert_eq!(language.as_str().parse(), Ok(language));
            assert_eq!(language.source_extensions().first().unwrap().parse(), Ok(language));
        }
        for dialect in Dialect::ALL {
            assert_eq!(dialect.as_str().parse(), Ok(dialect));
        }
        let error = "Rust".parse::<Language>().unwrap_err().to_string();
        assert_eq!(error, "unknown language `Rust`; expected one of: rust, python, javascript, typescript, c");
    }
}
