//! The answer to a use that was not granted.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The sorts of power that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Power {
    /// Folders of the host.
    Files,
    /// HTTP requests.
    Http,
    /// Environment variables.
    Env,
    /// Command line arguments.
    Args,
    /// Secrets that the host puts into requests.
    Secrets,
    /// Clocks finer than the usual.
    Clock,
    /// Randomness.
    Random,
    /// A private store of keys and values.
    KeyValue,
    /// Raw sockets and name lookup. Nobody can be granted these.
    Sockets,
    /// The snapshot of the agent's state.
    State,
}

impl Power {
    /// The name that policies, `inspect` and JSON use.
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
            Self::Sockets => "sockets",
            Self::State => "state",
        }
    }
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One use that was refused.
///
/// Nothing in it comes from a guest unless it was cut and made printable before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Which power it would have taken.
    pub power: Power,
    /// What the tool wanted to do: `GET https://example.com/`, `open /etc/passwd to read`.
    pub tried: String,
    /// Why not.
    pub because: String,
    /// The line of a policy that would allow it, if any would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} was refused, because {}", self.power, self.tried, self.because)?;
        self.allow.as_ref().map_or(Ok(()), |line| write!(f, "; to allow it: {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_why_and_what_would_help() {
        let refusal = Refusal {
            power: Power::Http,
            tried: "GET https://example.com/".to_owned(),
            because: "no request was granted".to_owned(),
            allow: Some("http = [\"GET https://example.com/**\"]".to_owned()),
        };
        let said = refusal.to_string();
        for part in ["http", "GET https://example.com/", "no request was granted", "to allow it: http = ["] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(serde_json::to_value(Power::KeyValue).unwrap(), Power::KeyValue.as_str());
    }
}
