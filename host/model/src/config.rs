//! Settings of a provider: timeouts, retries, sampling and keys.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

/// A provider's API key. It appears neither in `Debug` output nor in any error.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Creates a key from a text, without surrounding white space.
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

/// Limits on the time that a request to a provider may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Time until a connection is established. Default: 10 s.
    pub connect: Duration,
    /// Time from the request to the first piece of the answer, connecting included. Default: 5 min, because a local
    /// model is loaded and reads the whole prompt within that time.
    pub first_token: Duration,
    /// Time between two pieces of an answer. Default: 60 s.
    pub between_chunks: Duration,
    /// Time for the whole request, all retries and the waits between them included. Default: 10 min.
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

/// Retries of a request to a provider that is busy or failing. A request is never retried once a piece of the answer
/// was passed on, because that piece would arrive twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Maximum number of retries. Default: 3.
    pub max_retries: u32,
    /// Delay before the first retry. Default: 500 ms. It doubles each time, less a random amount of up to half of it.
    pub initial_delay: Duration,
    /// Maximum delay. Default: 30 s. A provider that asks for more by `retry-after` is not retried at all.
    pub max_delay: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { max_retries: 3, initial_delay: Duration::from_millis(500), max_delay: Duration::from_secs(30) }
    }
}

/// The amount of reasoning before an answer, for models with such a setting.
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
    /// More than [`High`](Self::High), for models with such a level.
    ExtraHigh,
    /// As much as possible.
    Max,
}

/// Settings of one provider.
///
/// A base URL or key that is `None` is read from the environment:
///
/// | provider | base URL | key |
/// |---|---|---|
/// | `openai` | `OPENAI_BASE_URL`, else OpenAI's | `OPENAI_API_KEY` |
/// | `anthropic` | `ANTHROPIC_BASE_URL`, else Anthropic's | `ANTHROPIC_API_KEY` |
/// | `gemini` | `GEMINI_BASE_URL`, else Google's | `GEMINI_API_KEY` |
/// | `ollama` | `OLLAMA_HOST` (a host, `host:port` or a URL), else `http://localhost:11434/` | none is sent |
/// | `compatible` | `OPENAI_COMPATIBLE_URL` | `OPENAI_COMPATIBLE_KEY`; none is fine |
///
/// `compatible` never gets OpenAI's key, because its server belongs to another party.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderConfig {
    /// The base URL of the provider: `http` or `https`, without user, password, query or fragment.
    pub base_url: Option<String>,
    /// The API key.
    pub key: Option<Key>,
    /// True if a key may be sent over plain `http` to another machine. Default: `false`.
    pub key_over_plain_http: bool,
    /// The URL of an `http` proxy, without a password. `None`: no proxy, not even one from the environment.
    pub proxy: Option<String>,
    /// The sampling temperature of requests that set none. `None`: the provider's default; reasoning models reject any
    /// other.
    pub temperature: Option<f64>,
    /// Maximum number of tokens in an answer, for requests that set none. `None`: the model's own limit.
    pub max_tokens: Option<u32>,
    /// The amount of reasoning. `None`: the model's default; models without reasoning reject the setting.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Settings that are sent to the provider unchanged. Those of a request take precedence.
    pub options: Map<String, Value>,
    /// True if the model supports tools. Default: `true`. Otherwise no tools are sent to it, and tool calls in its
    /// answers are ignored.
    pub supports_tools: bool,
    /// True if the model takes images. Default: `false`. Otherwise none is sent to it; the texts describe them.
    pub supports_images: bool,
    /// Maximum size of the text, thoughts and arguments of one answer, in bytes. Default: 8 MiB.
    pub max_reply_bytes: usize,
    /// Limits on the time that a request may take.
    pub timeouts: Timeouts,
    /// Retries of failed requests.
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
            supports_images: false,
            max_reply_bytes: 8 << 20,
            timeouts: Timeouts::default(),
            retries: Retries::default(),
        }
    }
}

impl ProviderConfig {
    /// Sets the base URL.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Sets the API key.
    #[must_use]
    pub fn key(mut self, key: Key) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets whether the model takes images.
    #[must_use]
    pub fn supports_images(mut self, supports_images: bool) -> Self {
        self.supports_images = supports_images;
        self
    }

    /// Sets whether the model supports tools.
    #[must_use]
    pub fn supports_tools(mut self, supports_tools: bool) -> Self {
        self.supports_tools = supports_tools;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_the_key() {
        let config = ProviderConfig::default().key(Key::new(" secret-1 \n"));
        assert!(!format!("{config:?}").contains("secret-1"));
        assert_eq!(config.key.unwrap().reveal(), "secret-1");
    }
}
