//! Packages of npm and PyPI, as they are written: `npm:NAME@VERSION` and `pypi:NAME@VERSION`, with `#sha256=DIGEST` once they
//! are installed.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use fumehood_core::digest::Digest;
use serde::{Deserialize, Serialize};

/// Maximum length of the name of a package, and of its version, in bytes.
const MAX_NAME_BYTES: usize = 214;
const MAX_VERSION_BYTES: usize = 64;
/// The beginning of the part with the digest.
const DIGEST_MARK: &str = "#sha256=";

/// The registry of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageRegistry {
    /// Packages for Node.
    Npm,
    /// Packages for Python.
    Pypi,
}

impl PackageRegistry {
    const ALL: [Self; 2] = [Self::Npm, Self::Pypi];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Npm => "npm:",
            Self::Pypi => "pypi:",
        }
    }
}

/// A package of npm or PyPI.
///
/// ```
/// use fumehood_config::package::PackageReference;
///
/// let package: PackageReference = "npm:@acme/server@1.2.3".parse()?;
/// assert_eq!((package.name.as_str(), package.version.as_deref()), ("@acme/server", Some("1.2.3")));
/// # Ok::<(), fumehood_config::package::PackageError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PackageReference {
    /// Its registry.
    pub registry: PackageRegistry,
    /// Its name.
    pub name: String,
    /// Its version; `None` for the newest.
    pub version: Option<String>,
    /// The digest of its installed files; `None` before it is installed.
    pub digest: Option<Digest>,
}

/// The error of parsing a [`PackageReference`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid package `{0}`; expected `npm:NAME@VERSION` or `pypi:NAME@VERSION`, with `#sha256=DIGEST` if it is installed"
)]
pub struct PackageError(String);

impl PackageReference {
    /// Returns whether a text is meant to be a package.
    pub fn is_meant(text: &str) -> bool {
        PackageRegistry::ALL.iter().any(|registry| text.starts_with(registry.prefix()))
    }

    /// Returns the package that a command downloads and runs, such as `npx -y NAME@VERSION` and `uvx NAME`.
    pub fn of_command(command: &[String]) -> Option<Self> {
        let (program, words) = command.split_first()?;
        let registry = match Path::new(program).file_name()?.to_str()? {
            "npx" | "bunx" | "pnpx" => PackageRegistry::Npm,
            "uvx" => PackageRegistry::Pypi,
            _ => return None,
        };
        // Options without a value of their own; with any other, the package is not certain.
        let mut words = words.iter().skip_while(|word| ["-y", "--yes", "-q", "--quiet"].contains(&word.as_str()));
        let name = words.next()?.replacen("==", "@", 1);
        format!("{}{name}", registry.prefix()).parse().ok()
    }

    /// Returns the last part of its name, which is usually that of its program.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
}

impl FromStr for PackageReference {
    type Err = PackageError;

    fn from_str(text: &str) -> Result<Self, PackageError> {
        let fail = || PackageError(text.chars().take(2 * MAX_NAME_BYTES).collect());
        let registry = PackageRegistry::ALL.into_iter().find(|registry| text.starts_with(registry.prefix()));
        let registry = registry.ok_or_else(fail)?;
        let rest = text.strip_prefix(registry.prefix()).ok_or_else(fail)?;
        let (rest, digest) = match rest.split_once(DIGEST_MARK) {
            Some((rest, hex)) => (rest, Some(format!("sha256:{hex}").parse().map_err(|_| fail())?)),
            None => (rest, None),
        };
        // The first character may be the `@` of a scope.
        let mark = rest.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(mark, _)| mark);
        let (name, version) = match mark.and_then(|mark| rest.split_at_checked(mark)) {
            Some((name, version)) => (name, Some(version.trim_start_matches('@'))),
            None => (rest, None),
        };
        let is_named = match (registry, name.strip_prefix('@').and_then(|name| name.split_once('/'))) {
            (PackageRegistry::Npm, Some((scope, name))) => is_name(scope) && is_name(name),
            _ => is_name(name),
        };
        if !is_named || name.len() > MAX_NAME_BYTES || !version.is_none_or(is_version) {
            return Err(fail());
        }
        Ok(Self { registry, name: name.to_owned(), version: version.map(str::to_owned), digest })
    }
}

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain)
}

/// Versions and tags, but no ranges, addresses or options.
fn is_version(version: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._+!".contains(c);
    version.len() <= MAX_VERSION_BYTES
        && version.starts_with(|c: char| c.is_ascii_alphanumeric())
        && version.chars().all(is_plain)
}

impl fmt::Display for PackageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { registry, name, version, digest } = self;
        write!(f, "{}{name}", registry.prefix())?;
        version.as_ref().map_or(Ok(()), |version| write!(f, "@{version}"))?;
        digest.as_ref().map_or(Ok(()), |digest| write!(f, "{DIGEST_MARK}{}", digest.hex()))
    }
}

impl TryFrom<String> for PackageReference {
    type Error = PackageError;

    fn try_from(text: String) -> Result<Self, PackageError> {
        text.parse()
    }
}

impl From<PackageReference> for String {
    fn from(package: PackageReference) -> Self {
        package.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_and_written() {
        let digest = format!("#sha256={}", "0a".repeat(32));
        for text in ["npm:a", "npm:@a/b-c", "npm:@a/b@1.0.0-rc.1", "npm:a@latest", "pypi:mcp_server.time@2025.9.25"] {
            for text in [text.to_owned(), format!("{text}{digest}")] {
                assert_eq!(text.parse::<PackageReference>().unwrap().to_string(), text);
            }
        }
    }

    #[test]
    fn commands_that_download_a_package_are_recognized() {
        let package = |command: &str| {
            let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
            PackageReference::of_command(&command).map(|package| package.to_string())
        };
        assert_eq!(package("npx -y @a/b@1.0 /srv").as_deref(), Some("npm:@a/b@1.0"));
        assert_eq!(package("/usr/bin/npx a").as_deref(), Some("npm:a"));
        assert_eq!(package("uvx mcp-server-time==2025.1").as_deref(), Some("pypi:mcp-server-time@2025.1"));
        for command in ["npx", "npx -p a b", "uvx --from git+https://x y", "node a", "docker run a"] {
            assert_eq!(package(command), None, "{command}");
        }
    }

    #[test]
    fn nothing_becomes_an_option_an_address_or_a_path() {
        for text in [
            "npm:",
            "npm:-g",
            "npm:--prefix=x",
            "npm:../x",
            "npm:a/b",
            "npm:@a",
            "npm:@a/",
            "npm:a@",
            "npm:a@-x",
            "npm:a@^1.0",
            "npm:a@file:x",
            "npm:a@git+ssh://x",
            "npm:a b",
            "pypi:@a/b",
            "pypi:a[extra]",
            "pypi:a@1 --x",
            "pypi:a;x",
            "gem:a",
            "a",
            "npm:a#sha256=12",
            "npm:a@https://x",
        ] {
            assert!(text.parse::<PackageReference>().is_err(), "{text}");
        }
    }
}
