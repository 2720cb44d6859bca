//! What an operator sets for a provider.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

/// A provider's key. Shown to nobody: neither `Debug` nor any error has it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Takes a text for a key, without the white space around it.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim().to_owned())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// How long to wait for a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until there is a connection: 10 s.
    pub connect: Duration,
    /// From asking until the first piece of the answer, connection included: 5 min. A model on this machine is loaded and reads
    /// the whole prompt within that time.
    pub first_token: Duration,
    /// Between two pieces of an answer: 60 s.
    pub between_chunks: Duration,
    /// For everything, all tries and the waits between them: 10 min.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_token: Duration::from_secs(300),
            between_chunks: Duration::from_secs(60),
            total: Duration::from_secs(600),
        }
    }
}

/// How often a provider that is busy or failing is asked again. It is never asked again once a piece of the answer was
/// handed on, because that piece would come twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Most tries after the first: 3.
    pub most: u32,
    /// The wait before the first of them: 500 ms. It doubles each time, and a random half of it is taken off.
    pub first_wait: Duration,
    /// The longest wait: 30 s. A provider that asks for more by `retry-after` is not asked again at all.
    pub longest_wait: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { most: 3, first_wait: Duration::from_millis(500), longest_wait: Duration::from_secs(30) }
    }
}

/// The amount of reasoning before an answer, where a model can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningEffort {
    /// Not at all.
    None,
    /// As little as possible.
    Minimal,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// More than that, where the model knows it.
    ExtraHigh,
    /// As much as possible.
    Max,
}

/// Settings of one provider.
///
/// What is `None` here is looked up in the environment:
///
/// | provider | base URL | key |
/// |---|---|---|
/// | `openai` | `OPENAI_BASE_URL`, else OpenAI's | `OPENAI_API_KEY` |
/// | `anthropic` | `ANTHROPIC_BASE_URL`, else Anthropic's | `ANTHROPIC_API_KEY` |
/// | `gemini` | `GEMINI_BASE_URL`, else Google's | `GEMINI_API_KEY` |
/// | `ollama` | `OLLAMA_HOST` (a host, `host:port` or a URL), else `http://localhost:11434/` | none is sent |
/// | `compatible` | `OPENAI_COMPATIBLE_URL` | `OPENAI_COMPATIBLE_KEY`; none is fine |
///
/// `compatible` never gets OpenAI's key: it is somebody else's server.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderConfig {
    /// Where the provider is: an `http` or `https` URL without user, password, query or fragment.
    pub base_url: Option<String>,
    /// What the provider knows its customer by.
    pub key: Option<Key>,
    /// Whether a key may travel over plain `http` to another machine. `false`.
    pub key_over_plain_http: bool,
    /// The URL of an `http` proxy to go through, without a password. `None`: none at all, whatever the environment says.
    pub proxy: Option<String>,
    /// Sampling temperature where a request does not say. `None`: the provider's own; reasoning models refuse any other.
    pub temperature: Option<f64>,
    /// Most tokens of an answer where a request does not say. `None`: the model's own limit.
    pub max_tokens: Option<u32>,
    /// The amount of reasoning. `None`: as the model does by itself; models without reasoning refuse the setting.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Settings of the provider that are sent as they are. Those of a request go before them.
    pub options: Map<String, Value>,
    /// Whether the model knows tools: `true`. If not, no tools are mentioned to it, and calls in its answers are not
    /// looked for.
    pub supports_tools: bool,
    /// Most bytes of text, thoughts and arguments in one answer: 8 MiB.
    pub max_reply_bytes: usize,
    /// How long to wait.
    pub timeouts: Timeouts,
    /// How often to try again.
    pub retries: Retries,
}

impl Default for ProviderConfig {
    fn default() -> Self {
        Self {
            base_url: None,
            key: None,
            key_over_plain_http: false,
            proxy: None,
            temperature: None,
            max_tokens: None,
            reasoning_effort: None,
            options: Map::new(),
            supports_tools: true,
            max_reply_bytes: 8 << 20,
            timeouts: Timeouts::default(),
            retries: Retries::default(),
        }
    }
}

impl ProviderConfig {
    /// Sets the base URL.
    #[must_use]
    pub fn with_base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Sets the key.
    #[must_use]
    pub fn with_key(mut self, key: Key) -> Self {
        self.key = Some(key);
        self
    }

    /// Says that the model knows no tools.
    #[must_use]
    pub fn without_tools(mut self) -> Self {
        self.supports_tools = false;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_shown() {
        let config = ProviderConfig::default().with_key(Key::new(" secret-1 \n"));
        assert!(!format!("{config:?}").contains("secret-1"));
        assert_eq!(config.key.unwrap().reveal(), "secret-1");
    }
}
