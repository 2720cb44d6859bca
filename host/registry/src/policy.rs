//! The operator's policy for components of registries: pure decisions, without a clock, a file or a socket.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fumehood_core::call::limits::display_bytes;
use fumehood_core::digest::Digest;
use fumehood_core::text::sanitize::truncate_str;
use fumehood_core::time::Timestamp;
use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

use crate::signature::{PublicKey, SignatureError, VerifiedSignature};

/// Default maximum size of a component, in bytes.
pub const DEFAULT_MAX_COMPONENT_BYTES: u64 = 64 << 20;
/// Maximum length of a pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 512;

/// A pattern of names: `*` stands for any part between slashes, `**` for any number of them.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    text: String,
    matcher: GlobMatcher,
}

/// The rule about signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SignatureRule {
    /// Components without a good signature of a trusted key are refused.
    #[default]
    Required,
    /// They are accepted, and the reason is reported.
    Warn,
    /// Signatures are not looked at.
    Off,
}

/// The policy for components of registries. By default any registry may be used, signatures are required, no key is trusted,
/// components have at most [`DEFAULT_MAX_COMPONENT_BYTES`], and nothing is revoked.
///
/// ```
/// use std::time::Duration;
///
/// use fumehood_registry::policy::{Policy, PolicyError, SignatureRule};
/// use fumehood_registry::signature::{Algorithm, SigningKey};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let publisher = SigningKey::generate(Algorithm::default())?;
/// let policy = Policy::new()
///     .allow(["ghcr.io/acme/**".parse()?])
///     .trusted_keys([publisher.public().clone()])
///     .max_bytes(16 << 20)
///     .min_age(Duration::from_secs(3 * 24 * 60 * 60));
/// assert_eq!(policy.signature_rule(), SignatureRule::Required);
/// policy.check_name("ghcr.io/acme/greeter")?;
/// assert!(matches!(policy.check_name("ghcr.io/other/greeter"), Err(PolicyError::NotAllowed { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Policy {
    allow: Option<Vec<Pattern>>,
    signatures: SignatureRule,
    trusted_keys: Vec<PublicKey>,
    trusted: Vec<(Pattern, Vec<PublicKey>)>,
    max_bytes: u64,
    min_age: Duration,
    revoked: BTreeSet<Digest>,
}

/// The result of a policy's rule about signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trust {
    /// A trusted key made the signature.
    Verified(VerifiedSignature),
    /// There is no good signature, which the policy only warns about.
    Unverified(SignatureError),
    /// The policy does not look at signatures.
    Unchecked,
}

/// A reason why the policy refuses a component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// No pattern of the allowed names matches.
    #[error("{name} is not an allowed name ({allowed}); add it to `allow` if you trust its publisher")]
    NotAllowed {
        /// The name of the component.
        name: String,
        /// The patterns.
        allowed: String,
    },
    /// The component is too large.
    #[error("{name} has {}; the maximum is {}, see `max_bytes`", display_bytes(*.bytes), display_bytes(*.maximum))]
    TooLarge {
        /// The name of the component.
        name: String,
        /// Its size in bytes.
        bytes: u64,
        /// The maximum in bytes.
        maximum: u64,
    },
    /// The manifest or the component is revoked.
    #[error("{name} is revoked: {digest} is in the list `revoked`; use another version")]
    Revoked {
        /// The name of the component.
        name: String,
        /// The revoked digest.
        digest: Digest,
    },
    /// The signature is too recent.
    #[error("{name} was signed {} ago, but `min_age` is {}; use an older version, or wait", rounded(*.age), rounded(*.minimum))]
    TooYoung {
        /// The name of the component.
        name: String,
        /// The age of the signature.
        age: Duration,
        /// The minimum.
        minimum: Duration,
    },
    /// The age is unknown, because there is no verified signature with a time.
    #[error("{name} has no signature with a time, but `min_age` is {}; ask its publisher for one", rounded(*.minimum))]
    UnknownAge {
        /// The name of the component.
        name: String,
        /// The minimum.
        minimum: Duration,
    },
    /// The signature is missing or not good.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The pattern is malformed.
    #[error(
        "invalid pattern `{text}` of names: {reason}; expected HOST/NAME with `*` or `**`, such as `ghcr.io/acme/**`"
    )]
    Pattern {
        /// The pattern.
        text: String,
        /// The reason.
        reason: String,
    },
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            allow: None,
            signatures: SignatureRule::default(),
            trusted_keys: Vec::new(),
            trusted: Vec::new(),
            max_bytes: DEFAULT_MAX_COMPONENT_BYTES,
            min_age: Duration::ZERO,
            revoked: BTreeSet::new(),
        }
    }
}

impl Policy {
    /// Creates the default policy.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the names that may be used; an empty list allows none.
    #[must_use]
    pub fn allow(mut self, patterns: impl IntoIterator<Item = Pattern>) -> Self {
        self.allow = Some(patterns.into_iter().collect());
        self
    }

    /// Sets the rule about signatures.
    #[must_use]
    pub fn signatures(mut self, rule: SignatureRule) -> Self {
        self.signatures = rule;
        self
    }

    /// Sets the keys that are trusted for every name that no pattern of [`Self::trusted`] matches.
    #[must_use]
    pub fn trusted_keys(mut self, keys: impl IntoIterator<Item = PublicKey>) -> Self {
        self.trusted_keys = keys.into_iter().collect();
        self
    }

    /// Adds keys that are trusted for the names of a pattern, and alone are. If several patterns match a name, the longest
    /// one decides.
    #[must_use]
    pub fn trusted(mut self, pattern: Pattern, keys: impl IntoIterator<Item = PublicKey>) -> Self {
        self.trusted.push((pattern, keys.into_iter().collect()));
        self
    }

    /// Sets the maximum size of a component, in bytes.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the minimum age of a signature, against fresh malware. It counts from the time that the signer states.
    #[must_use]
    pub fn min_age(mut self, age: Duration) -> Self {
        self.min_age = age;
        self
    }

    /// Sets the digests of manifests and components that are refused.
    #[must_use]
    pub fn revoked(mut self, digests: impl IntoIterator<Item = Digest>) -> Self {
        self.revoked = digests.into_iter().collect();
        self
    }

    /// Returns the maximum size of a component, in bytes.
    #[must_use]
    pub fn max_component_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Returns the rule about signatures.
    #[must_use]
    pub fn signature_rule(&self) -> SignatureRule {
        self.signatures
    }

    /// Returns the keys that are trusted for a name.
    #[must_use]
    pub fn keys_for(&self, name: &str) -> &[PublicKey] {
        let matching = self.trusted.iter().filter(|(pattern, _)| pattern.matches(name));
        match matching.max_by_key(|(pattern, _)| pattern.text.len()) {
            Some((_, keys)) => keys,
            None => &self.trusted_keys,
        }
    }

    /// Checks that a name may be used.
    ///
    /// # Errors
    /// If no pattern matches it.
    pub fn check_name(&self, name: &str) -> Result<(), PolicyError> {
        match &self.allow {
            Some(allow) if !allow.iter().any(|pattern| pattern.matches(name)) => {
                let list = allow.iter().map(|pattern| pattern.text.as_str()).collect::<Vec<_>>().join(", ");
                let allowed = if list.is_empty() { "none".to_owned() } else { list };
                Err(PolicyError::NotAllowed { name: name.to_owned(), allowed })
            }
            _ => Ok(()),
        }
    }

    /// Checks the size of a component.
    ///
    /// # Errors
    /// If it is larger than the maximum.
    pub fn check_size(&self, name: &str, bytes: u64) -> Result<(), PolicyError> {
        if bytes > self.max_bytes {
            Err(PolicyError::TooLarge { name: name.to_owned(), bytes, maximum: self.max_bytes })
        } else {
            Ok(())
        }
    }

    /// Checks that none of the digests is revoked.
    ///
    /// # Errors
    /// If one is.
    pub fn check_revoked(&self, name: &str, digests: &[Digest]) -> Result<(), PolicyError> {
        match digests.iter().find(|digest| self.revoked.contains(digest)) {
            Some(digest) => Err(PolicyError::Revoked { name: name.to_owned(), digest: *digest }),
            None => Ok(()),
        }
    }

    /// Applies the rule about signatures to the result of verifying them, and the rule about ages.
    ///
    /// # Errors
    /// If a signature is required and not good, or the component is too young.
    pub fn judge(
        &self,
        name: &str,
        verification: Result<VerifiedSignature, SignatureError>,
        now: Timestamp,
    ) -> Result<Trust, PolicyError> {
        let trust = match (self.signatures, verification) {
            (SignatureRule::Off, _) => Trust::Unchecked,
            (_, Ok(verified)) => Trust::Verified(verified),
            (SignatureRule::Warn, Err(error)) => Trust::Unverified(error),
            (SignatureRule::Required, Err(error)) => return Err(error.into()),
        };
        self.check_age(name, &trust, now)?;
        Ok(trust)
    }

    fn check_age(&self, name: &str, trust: &Trust, now: Timestamp) -> Result<(), PolicyError> {
        let minimum = self.min_age;
        if minimum.is_zero() {
            return Ok(());
        }
        let name = || name.to_owned();
        let signed_at = match trust {
            Trust::Verified(verified) => verified.claim.provenance.signed_at.as_deref().and_then(parse_time),
            _ => None,
        };
        let Some(signed_at) = signed_at else { return Err(PolicyError::UnknownAge { name: name(), minimum }) };
        let age = now.since(signed_at);
        if age < minimum { Err(PolicyError::TooYoung { name: name(), age, minimum }) } else { Ok(()) }
    }
}

/// Parses a moment in RFC 3339.
pub(crate) fn parse_time(text: &str) -> Option<Timestamp> {
    let time: SystemTime = humantime::parse_rfc3339_weak(text).ok()?;
    let millis = time.duration_since(UNIX_EPOCH).ok()?.as_millis();
    u64::try_from(millis).ok().map(Timestamp)
}

fn rounded(duration: Duration) -> String {
    humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string()
}

impl Pattern {
    /// Returns whether a name matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.matcher.is_match(name)
    }
}

impl FromStr for Pattern {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let bad = |reason: String| PolicyError::Pattern { text: truncate_str(text, 100).to_owned(), reason };
        if text.is_empty() || text.len() > MAX_PATTERN_BYTES {
            return Err(bad(format!("it has {} bytes; expected 1 to {MAX_PATTERN_BYTES}", text.len())));
        }
        if text.contains("://") || text.contains([':', '@']) && !is_host_with_port(text) {
            return Err(bad("names cannot have a scheme, tag or digest".to_owned()));
        }
        let lower = text.to_ascii_lowercase();
        let glob = GlobBuilder::new(&lower).literal_separator(true).build();
        let glob = glob.map_err(|error| bad(error.kind().to_string()))?;
        Ok(Self { text: lower, matcher: glob.compile_matcher() })
    }
}

/// Returns whether the only colon of a pattern is that of a port.
fn is_host_with_port(text: &str) -> bool {
    let host = text.split('/').next().unwrap_or_default();
    !text.contains('@') && text.matches(':').count() == host.matches(':').count()
}

impl TryFrom<String> for Pattern {
    type Error = PolicyError;
    fn try_from(text: String) -> Result<Self, PolicyError> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}
