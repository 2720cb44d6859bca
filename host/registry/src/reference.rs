//! References to components: in an OCI registry, at a URL with a digest, or in a file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fumehood_core::digest::{Digest, DigestError};
use fumehood_core::text::sanitize::truncate_str;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// Maximum length of a reference, in bytes.
pub const MAX_REFERENCE_BYTES: usize = 2048;
/// Maximum length of host and repository together, in bytes (OCI distribution specification 1.1, "Pulling manifests").
const MAX_NAME_BYTES: usize = 255;
/// Maximum length of a tag, in bytes (the same section).
const MAX_TAG_BYTES: usize = 128;
/// Scheme of references to an OCI registry.
const OCI_SCHEME: &str = "oci://";

/// The place of a component.
///
/// ```
/// use fumehood_registry::reference::{Reference, ReferenceError};
///
/// assert!(matches!("oci://ghcr.io/acme/greeter:1.0".parse::<Reference>()?, Reference::Oci(_)));
/// assert!(matches!("./greeter.wasm".parse::<Reference>()?, Reference::File(_)));
/// // A URL needs the digest of what is expected there.
/// assert!("https://example.com/greeter.wasm".parse::<Reference>().is_err());
/// # Ok::<(), ReferenceError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reference {
    /// `oci://host[:port]/name:tag`, `oci://host[:port]/name@sha256:…`, or both.
    Oci(OciReference),
    /// `https://…#sha256=…`.
    Url(UrlReference),
    /// A path.
    File(PathBuf),
}

/// A reference to a component in an OCI registry.
///
/// ```
/// use fumehood_core::digest::Digest;
/// use fumehood_registry::reference::{OciReference, ReferenceError};
///
/// let reference: OciReference = "oci://ghcr.io/acme/greeter:1.0".parse()?;
/// assert_eq!(reference.host(), "ghcr.io");
/// assert_eq!(reference.tag(), Some("1.0"));
/// // A tag can move; a digest cannot.
/// let pinned = reference.with_digest(Digest::of(b"the manifest"));
/// assert!(pinned.to_string().contains("@sha256:"));
/// # Ok::<(), ReferenceError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OciReference {
    host: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// A reference to a component at a URL, whose bytes are pinned by their digest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UrlReference {
    url: Url,
    digest: Digest,
}

/// An error of parsing a reference. Each names the reference and the form that was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// The reference is longer than [`MAX_REFERENCE_BYTES`].
    #[error("the reference has {0} bytes; the maximum is {MAX_REFERENCE_BYTES}")]
    TooLong(usize),
    /// The reference is empty or contains control characters.
    #[error("invalid reference `{0}`; expected oci://HOST/NAME:TAG, https://…#sha256=DIGEST, or a path")]
    Unreadable(String),
    /// The scheme is unknown.
    #[error("unknown scheme `{scheme}://` in `{reference}`; expected oci://, https:// or a path")]
    Scheme {
        /// The reference.
        reference: String,
        /// The scheme.
        scheme: String,
    },
    /// The host is missing or malformed.
    #[error("`{0}` has no registry; expected oci://HOST[:PORT]/NAME:TAG")]
    Host(String),
    /// The repository is missing or malformed.
    #[error(
        "invalid name in `{reference}`; expected lower-case letters, digits, and single `.`, `_` or `-` between them, \
         in parts separated by `/`, and at most {MAX_NAME_BYTES} bytes with the host"
    )]
    Name {
        /// The reference.
        reference: String,
    },
    /// The tag is malformed.
    #[error("invalid tag `{tag}` in `{reference}`; expected at most {MAX_TAG_BYTES} letters, digits, `_`, `.` and `-`")]
    Tag {
        /// The reference.
        reference: String,
        /// The tag.
        tag: String,
    },
    /// The digest is malformed.
    #[error("`{reference}`: {reason}")]
    Digest {
        /// The reference.
        reference: String,
        /// The reason.
        reason: DigestError,
    },
    /// The reference has neither a tag nor a digest.
    #[error("`{0}` has no version; add a tag, such as `:1.0`, or a digest, `@sha256:…`")]
    NoVersion(String),
    /// The URL is malformed, has a user or a password in it, or is neither HTTPS nor on this machine.
    #[error("invalid URL `{0}`; expected https://HOST/PATH#sha256=DIGEST without user or password")]
    Url(String),
    /// The URL has no digest.
    #[error("`{0}` has no digest; add `#sha256=` and the 64 hexadecimal digits of the file's digest")]
    NoDigest(String),
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        check_text(text)?;
        match text.split_once("://") {
            Some(("oci", _)) => Ok(Self::Oci(text.parse()?)),
            Some(("https" | "http", _)) => Ok(Self::Url(text.parse()?)),
            Some(("file", path)) => Ok(Self::File(PathBuf::from(path))),
            // A colon can be part of a path, but no path begins with a word and `://`.
            Some((scheme, _)) if !scheme.contains(['/', '.']) => {
                Err(ReferenceError::Scheme { reference: excerpt(text), scheme: scheme.to_owned() })
            }
            _ => Ok(Self::File(PathBuf::from(text))),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oci(reference) => reference.fmt(f),
            Self::Url(reference) => reference.fmt(f),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl OciReference {
    /// Returns the host of the registry in lower case, with its port if it has one.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the repository within the registry.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the tag.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest of the manifest.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// Returns host and repository, separated by a slash: the name that signatures and policies are about.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.host, self.repository)
    }

    /// Returns the reference to another tag of the same repository.
    pub(crate) fn with_tag(&self, tag: String) -> Self {
        Self { tag: Some(tag), digest: None, ..self.clone() }
    }

    /// Returns this reference with its manifest pinned.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }

    /// Returns the last part of a manifest's path: the digest if there is one, otherwise the tag.
    pub(crate) fn version(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            // The parser takes no reference without either.
            (None, None) => String::new(),
        }
    }
}

impl FromStr for OciReference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        check_text(text)?;
        let reference = || excerpt(text);
        let rest = text.strip_prefix(OCI_SCHEME).ok_or_else(|| ReferenceError::Host(reference()))?;
        let (host, rest) = rest.split_once('/').ok_or_else(|| ReferenceError::Host(reference()))?;
        let host = parse_host(host).ok_or_else(|| ReferenceError::Host(reference()))?;
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => {
                let digest = digest.parse();
                (rest, Some(digest.map_err(|reason| ReferenceError::Digest { reference: reference(), reason })?))
            }
            None => (rest, None),
        };
        let (repository, tag) = match rest.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (rest, None),
        };
        if !is_repository(repository) || host.len() + 1 + repository.len() > MAX_NAME_BYTES {
            return Err(ReferenceError::Name { reference: reference() });
        }
        if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
            return Err(ReferenceError::Tag { reference: reference(), tag: excerpt(tag) });
        }
        if tag.is_none() && digest.is_none() {
            return Err(ReferenceError::NoVersion(reference()));
        }
        Ok(Self { host, repository: repository.to_owned(), tag: tag.map(str::to_owned), digest })
    }
}

impl fmt::Display for OciReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OCI_SCHEME}{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

impl TryFrom<String> for OciReference {
    type Error = ReferenceError;
    fn try_from(text: String) -> Result<Self, ReferenceError> {
        text.parse()
    }
}

impl From<OciReference> for String {
    fn from(reference: OciReference) -> Self {
        reference.to_string()
    }
}

impl UrlReference {
    /// Returns the URL, without the digest.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the digest of the component.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
}

impl FromStr for UrlReference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        check_text(text)?;
        // A password must not be repeated in a message.
        let url = || ReferenceError::Url(excerpt(text.split('@').next_back().unwrap_or_default()));
        let mut parsed = Url::parse(text).map_err(|_| url())?;
        let is_fetchable = parsed.scheme() == "https" || (parsed.scheme() == "http" && is_loopback(&parsed));
        if !is_fetchable || !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(url());
        }
        let digest = parsed.fragment().and_then(|fragment| fragment.strip_prefix("sha256="));
        let digest = digest.ok_or_else(|| ReferenceError::NoDigest(excerpt(text)))?;
        let digest = format!("sha256:{digest}")
            .parse()
            .map_err(|reason| ReferenceError::Digest { reference: excerpt(text), reason })?;
        parsed.set_fragment(None);
        Ok(Self { url: parsed, digest })
    }
}

impl fmt::Display for UrlReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#sha256={}", self.url, self.digest.hex())
    }
}

impl From<OciReference> for Reference {
    fn from(reference: OciReference) -> Self {
        Self::Oci(reference)
    }
}

impl From<UrlReference> for Reference {
    fn from(reference: UrlReference) -> Self {
        Self::Url(reference)
    }
}

impl From<&Path> for Reference {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

/// Returns whether a request to the URL never leaves this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn check_text(text: &str) -> Result<(), ReferenceError> {
    if text.len() > MAX_REFERENCE_BYTES {
        return Err(ReferenceError::TooLong(text.len()));
    }
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(ReferenceError::Unreadable(excerpt(text)));
    }
    Ok(())
}

/// Returns the beginning of a text, for a message.
fn excerpt(text: &str) -> String {
    truncate_str(text, 200).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Normalizes `host[:port]`. Returns `None` if it is malformed.
fn parse_host(text: &str) -> Option<String> {
    let (name, port) = match text.rsplit_once(':') {
        // An IPv6 address stands in brackets, which may contain the last colon.
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (text, None),
    };
    let port = match port {
        Some(port) => {
            let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            Some(port.parse::<u16>().ok().filter(|number| is_number && *number != 0)?)
        }
        None => None,
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-[]:".contains(&byte);
    if !name.bytes().all(is_plain) {
        return None;
    }
    if !name.starts_with('[') && !name.split('.').all(is_label) {
        return None;
    }
    let name = Host::parse(name).ok()?.to_string();
    Some(port.map_or(name.clone(), |port| format!("{name}:{port}")))
}

/// Returns whether a label of a host name begins and ends with a letter or a digit.
fn is_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric) && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

/// Returns whether a repository matches
/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(\/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*` (OCI distribution specification 1.1).
fn is_repository(text: &str) -> bool {
    text.split('/').all(is_path_component)
}

fn is_path_component(text: &str) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let separators = bytes.split(is_word).filter(|run| !run.is_empty());
    let is_separator = |run: &[u8]| matches!(run, b"." | b"_" | b"__") || run.iter().all(|byte| *byte == b'-');
    bytes.first().is_some_and(is_word) && bytes.last().is_some_and(is_word) && separators.into_iter().all(is_separator)
}

/// Returns whether a tag matches `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}` (OCI distribution specification 1.1).
fn is_tag(text: &str) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    text.len() <= MAX_TAG_BYTES
        && text.as_bytes().first().is_some_and(is_word)
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}
