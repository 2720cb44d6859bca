//! Refusals of uses that were not granted, and the kinds of powers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Maximum length of a quoted text, in characters: enough to recognise it.
const MAX_QUOTED_CHARS: usize = 64;

/// The kinds of powers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Power {
    /// Access to folders of the host.
    Files,
    /// HTTP requests.
    Http,
    /// Environment variables.
    Env,
    /// Command line arguments.
    Args,
    /// Secrets that the host injects into requests.
    Secrets,
    /// Clocks of a finer or coarser resolution than the default.
    Clock,
    /// Seeded randomness.
    Random,
    /// A private key-value store.
    KeyValue,
    /// TCP connections, and lookups of the names of their hosts.
    Tcp,
    /// Other sockets, which cannot be granted: UDP, and listening.
    Sockets,
    /// The snapshot of the agent's state.
    State,
    /// A [capability](crate::capability::Capability) of the embedder.
    Capability,
}

impl Power {
    /// Returns the name in policies, `inspect` and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Http => "http",
            Self::Env => "env",
            Self::Args => "args",
            Self::Secrets => "secrets",
            Self::Clock => "clock",
            Self::Random => "random",
            Self::KeyValue => "key_value",
            Self::Tcp => "tcp",
            Self::Sockets => "sockets",
            Self::State => "state",
            Self::Capability => "capability",
        }
    }
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refused use of a power.
///
/// Texts of guests in it are shortened and escaped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The power that was needed.
    pub power: Power,
    /// The attempted operation: `GET https://example.com/`, `open /etc/passwd to read`.
    pub tried: String,
    /// The reason of the refusal.
    pub because: String,
    /// The line of a policy that would allow it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} was refused, because {}", self.power, self.tried, self.because)?;
        self.allow.as_ref().map_or(Ok(()), |line| write!(f, "; to allow it: {line}"))
    }
}

/// Shortens a rejected text for an error message, and escapes characters that a terminal would act on.
pub(crate) fn quote(text: &str) -> String {
    let printable = crate::text::sanitize::printable(text);
    match printable.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", printable.get(..end).unwrap_or_default()),
        None => printable.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_names_attempt_reason_and_remedy() {
        let refusal = Refusal {
            power: Power::Http,
            tried: "GET https://example.com/".to_owned(),
            because: "no request was granted".to_owned(),
            allow: Some("http = [\"GET https://example.com/**\"]".to_owned()),
        };
        let text = refusal.to_string();
        for part in ["http", "GET https://example.com/", "no request was granted", "to allow it: http = ["] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(serde_json::to_value(Power::KeyValue).unwrap(), Power::KeyValue.as_str());
    }

    #[test]
    fn quote_shortens_and_escapes() {
        assert_eq!(quote("a\u{7}b"), "a\\u{7}b");
        assert_eq!(quote(&"ä".repeat(64)), "ä".repeat(64));
        assert_eq!(quote(&"ä".repeat(65)), format!("{}…", "ä".repeat(64)));
    }
}
