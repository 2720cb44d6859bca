//! Model names of the form `PROVIDER:NAME`: `openai:gpt-4o-mini`, `ollama:llama3.2`, `scripted:demo.json`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Maximum size of a model's name, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// A kind of provider, identified by its wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Service {
    /// OpenAI's chat completions, at OpenAI unless a base URL is set.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Gemini's `streamGenerateContent`.
    Gemini,
    /// Ollama's own `/api/chat`.
    Ollama,
    /// OpenAI's chat completions, at another party's server.
    Compatible,
}

impl Service {
    /// All kinds, in the order in which messages list them.
    pub const ALL: [Self; 5] = [Self::OpenAi, Self::Anthropic, Self::Gemini, Self::Ollama, Self::Compatible];

    /// Returns the prefix of a [`ModelSpec`], before the colon.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Compatible => "compatible",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A reference to one model, as an operator writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSpec {
    /// A model of a provider.
    Provider {
        /// The kind of provider.
        service: Service,
        /// The provider's name for the model.
        name: String,
    },
    /// Replies from a file: see [`crate::ScriptedModel`].
    Scripted(PathBuf),
}

/// Errors of parsing a [`ModelSpec`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The colon is missing.
    #[error("invalid model `{0}`; expected PROVIDER:NAME, such as `ollama:llama3.2`, or scripted:FILE")]
    NoProvider(String),
    /// The word before the colon is not a known provider.
    #[error("unknown provider `{0}`; expected openai, anthropic, gemini, ollama, compatible or scripted")]
    UnknownProvider(String),
    /// The part after the colon is not a valid model name.
    #[error("invalid model name `{0}`; expected 1 to 256 bytes without spaces, control characters and `::`")]
    BadName(String),
}

impl ModelSpec {
    /// Parses `PROVIDER:NAME` or `scripted:FILE`. Only the first colon separates: `ollama:llama3.2:1b` names
    /// `llama3.2:1b`.
    ///
    /// For Gemini and Anthropic the client library may interpret a suffix such as `-low`, `-medium` or `-high` as a
    /// reasoning effort, and not send it as a part of the name.
    ///
    /// # Errors
    /// If the colon is missing, the provider is unknown, or the name is invalid.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let (provider, name) = text.split_once(':').ok_or_else(|| SpecError::NoProvider(quote(text)))?;
        if provider == "scripted" && !name.is_empty() {
            return Ok(Self::Scripted(PathBuf::from(name)));
        }
        let service = Service::ALL.into_iter().find(|service| service.name() == provider);
        let service = match service {
            Some(service) => service,
            None if provider == "scripted" => return Err(SpecError::BadName(quote(name))),
            None => return Err(SpecError::UnknownProvider(quote(provider))),
        };
        if !is_name(service, name) {
            return Err(SpecError::BadName(quote(name)));
        }
        Ok(Self::Provider { service, name: name.to_owned() })
    }

    /// Creates a reference to a model of an Ollama server.
    pub fn ollama(name: impl Into<String>) -> Self {
        Self::Provider { service: Service::Ollama, name: name.into() }
    }
}

fn quote(text: &str) -> String {
    text.chars().take(80).collect::<String>().escape_debug().to_string()
}

/// Returns whether `name` is a valid model name for a provider.
pub(crate) fn is_name(service: Service, name: &str) -> bool {
    let is_hidden = |c: char| c.is_whitespace() || fumehood_core::text::sanitize::is_hidden(c);
    // The client library takes a prefix before `::` for a namespace, and removes it.
    let is_plain = !name.is_empty() && !name.starts_with(':') && !name.contains("::") && !name.chars().any(is_hidden);
    // The name becomes a part of Gemini's URL.
    let is_url_safe = service != Service::Gemini || !name.contains(['/', '?', '#', '%', '\\']);
    is_plain && is_url_safe && name.len() <= MAX_NAME_BYTES
}

impl FromStr for ModelSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse(text)
    }
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Provider { service, name } => write!(f, "{service}:{name}"),
            Self::Scripted(path) => write!(f, "scripted:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = ModelSpec::parse(text).map_or_else(|error| format!("error: {error}"), |spec| format!("{spec:?}"));
        assert!(found.contains(expected), "{text}: {found}");
    }

    #[test]
    fn parses_provider_and_name() {
        check("openai:gpt-4o-mini", "OpenAi, name: \"gpt-4o-mini\"");
        check("anthropic:claude-x", "Anthropic");
        check("gemini:gemini-2.5-flash", "Gemini");
        check("ollama:llama3.2:1b", "Ollama, name: \"llama3.2:1b\"");
        check("compatible:org/model", "Compatible, name: \"org/model\"");
        check("scripted:demo.json", "Scripted(\"demo.json\")");
        check("llama3.2", "error: invalid model `llama3.2`");
        check("", "error: invalid model ``");
        check("grok:x", "error: unknown provider `grok`; expected openai");
        check("OpenAI:x", "error: unknown provider `OpenAI`");
        check("openai:", "error: invalid model name ``");
        check("scripted:", "error: invalid model name ``");
        check("openai::x", "error: invalid model name `:x`");
        check("openai:groq::x", "error: invalid model name `groq::x`");
        check("openai:a b", "error: invalid model name `a b`");
        check("openai:a\u{202e}b", "invalid model name");
        check("gemini:../x", "invalid model name");
        check(&format!("openai:{}", "x".repeat(257)), "invalid model name");
        assert_eq!(ModelSpec::parse("ollama:a").unwrap().to_string(), "ollama:a");
    }
}
