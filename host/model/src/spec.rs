//! Which model is meant: `openai:gpt-4o-mini`, `ollama:llama3.2`, `scripted:demo.json`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The longest name of a model, in bytes.
const MAX_NAME: usize = 256;

/// A kind of provider, by the wire format that it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Service {
    /// OpenAI's chat completions, at OpenAI unless told otherwise.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Gemini's `streamGenerateContent`.
    Gemini,
    /// Ollama's own `/api/chat`.
    Ollama,
    /// OpenAI's chat completions at somebody else's address.
    Compatible,
}

impl Service {
    /// Every kind, in the order in which messages list them.
    pub const ALL: [Self; 5] = [Self::OpenAi, Self::Anthropic, Self::Gemini, Self::Ollama, Self::Compatible];

    /// The word before the colon.
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

/// One model, as an operator names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSpec {
    /// A model of a provider.
    Provider {
        /// Whose wire format.
        service: Service,
        /// What the provider calls the model.
        name: String,
    },
    /// Replies from a file: see [`crate::ScriptedModel`].
    Scripted(PathBuf),
}

/// A text names no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// There is no colon.
    #[error("`{0}` names no model; write PROVIDER:NAME, for example `ollama:llama3.2`, or scripted:FILE")]
    NoProvider(String),
    /// The word before the colon is none that is known.
    #[error("`{0}` is no provider; expected openai, anthropic, gemini, ollama, compatible or scripted")]
    UnknownProvider(String),
    /// The part after the colon can not be the name of a model.
    #[error("`{0}` is no name of a model; a name has 1 to 256 bytes, no spaces, no control characters and no `::`")]
    BadName(String),
}

impl ModelSpec {
    /// Reads `PROVIDER:NAME` or `scripted:FILE`. Only the first colon counts: `ollama:llama3.2:1b` names `llama3.2:1b`.
    ///
    /// For Gemini and Anthropic the client library may take a name that ends in `-low`, `-medium`, `-high` and the like
    /// for a model with that reasoning effort, and not send the ending as a part of the name.
    ///
    /// # Errors
    /// If there is no colon, the provider is not known, or the name is none.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let shown = |text: &str| text.chars().take(80).collect::<String>().escape_debug().to_string();
        let (provider, name) = text.split_once(':').ok_or_else(|| SpecError::NoProvider(shown(text)))?;
        if provider == "scripted" && !name.is_empty() {
            return Ok(Self::Scripted(PathBuf::from(name)));
        }
        let service = Service::ALL.into_iter().find(|service| service.name() == provider);
        let service = match service {
            Some(service) => service,
            None if provider == "scripted" => return Err(SpecError::BadName(shown(name))),
            None => return Err(SpecError::UnknownProvider(shown(provider))),
        };
        if !is_name(service, name) {
            return Err(SpecError::BadName(shown(name)));
        }
        Ok(Self::Provider { service, name: name.to_owned() })
    }

    /// A model that an Ollama server on this machine has.
    pub fn ollama(name: impl Into<String>) -> Self {
        Self::Provider { service: Service::Ollama, name: name.into() }
    }
}

/// Whether a provider's model may be called that.
pub(crate) fn is_name(service: Service, name: &str) -> bool {
    let hidden = |c: char| c.is_whitespace() || fumehood_core::sanitize::is_hidden(c);
    // `::` would make the client library see a namespace and leave it out.
    let plain = !name.is_empty() && !name.starts_with(':') && !name.contains("::") && !name.chars().any(hidden);
    // The name becomes a part of Gemini's address.
    let harmless = service != Service::Gemini || !name.contains(['/', '?', '#', '%', '\\']);
    plain && harmless && name.len() <= MAX_NAME
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
    fn a_model_is_a_provider_and_a_name() {
        check("openai:gpt-4o-mini", "OpenAi, name: \"gpt-4o-mini\"");
        check("anthropic:claude-x", "Anthropic");
        check("gemini:gemini-2.5-flash", "Gemini");
        check("ollama:llama3.2:1b", "Ollama, name: \"llama3.2:1b\"");
        check("compatible:org/model", "Compatible, name: \"org/model\"");
        check("scripted:demo.json", "Scripted(\"demo.json\")");
        check("llama3.2", "error: `llama3.2` names no model");
        check("", "error: `` names no model");
        check("grok:x", "error: `grok` is no provider; expected openai");
        check("OpenAI:x", "error: `OpenAI` is no provider");
        check("openai:", "error: `` is no name");
        check("scripted:", "error: `` is no name");
        check("openai::x", "error: `:x` is no name");
        check("openai:groq::x", "error: `groq::x` is no name");
        check("openai:a b", "error: `a b` is no name");
        check("openai:a\u{202e}b", "is no name");
        check("gemini:../x", "is no name");
        check(&format!("openai:{}", "x".repeat(257)), "is no name");
        assert_eq!(ModelSpec::parse("ollama:a").unwrap().to_string(), "ollama:a");
    }
}
