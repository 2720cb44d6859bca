//! Parameters that a provider may reject, their mention in its error messages, and the adjustments made for each model.

use std::collections::BTreeSet;

use fumehood_core::chat::ToolSpec;

/// A parameter of a request that can be left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Parameter {
    /// The sampling temperature.
    Temperature,
    /// The limit on the tokens of an answer.
    MaxTokens,
    /// The amount of reasoning.
    ReasoningEffort,
    /// The JSON Schema of the answer. Without it, any JSON object is requested.
    JsonSchema,
    /// The requirement that the answer is a JSON object.
    Json,
    /// An option that is passed on unchanged.
    Option(String),
}

impl Parameter {
    /// Returns the key that sets it, if an operator can set it at all.
    pub(crate) fn setting(&self) -> Option<String> {
        Some(match self {
            Self::Temperature => "temperature".to_owned(),
            Self::MaxTokens => "max_tokens".to_owned(),
            Self::ReasoningEffort => "reasoning_effort".to_owned(),
            Self::Option(name) => format!("options.{name}"),
            Self::JsonSchema | Self::Json => return None,
        })
    }

    /// Returns the providers' names for it, in lower case.
    fn names(&self) -> Vec<String> {
        let names: &[&str] = match self {
            Self::Temperature => &["temperature"],
            Self::MaxTokens => {
                &["max_tokens", "max_completion_tokens", "max_output_tokens", "maxoutputtokens", "num_predict"]
            }
            Self::ReasoningEffort => &[
                "reasoning_effort",
                "reasoning.effort",
                "output_config",
                "thinkingconfig",
                "thinking_config",
                "thinkingbudget",
                "thinkinglevel",
                "thinking",
                "think",
                "effort",
            ],
            Self::JsonSchema => &[
                "response_format",
                "json_schema",
                "responsejsonschema",
                "response_json_schema",
                "responsemimetype",
                "response_mime_type",
                "grammar",
                "schema",
            ],
            Self::Json => {
                &["response_format", "json_object", "json mode", "responsemimetype", "response_mime_type", "format"]
            }
            Self::Option(name) => return vec![name.to_lowercase()],
        };
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Returns whether a provider's name for a parameter, such as `reasoning.effort`, means this one.
    fn is_called(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let first = name.split(['.', '[']).next().unwrap_or_default();
        self.names().iter().any(|known| *known == name || known == first)
    }

    /// Returns the position at which a text in lower case first names it.
    fn position(&self, text: &str) -> Option<usize> {
        self.names().iter().filter_map(|name| find_word(text, name)).min()
    }
}

/// Returns the position of a whole word in a text.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let is_word_char = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).map(|(at, _)| at).find(|at| {
        let before = text.get(..*at).and_then(|before| before.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|after| after.chars().next());
        !before.is_some_and(is_word_char) && !after.is_some_and(is_word_char)
    })
}

/// A parameter that an error response is about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mention {
    /// Named in the `param` field.
    Field(Parameter),
    /// Named in the message.
    Words(Parameter),
}

impl Mention {
    /// Finds the parameter, among those that were sent, that an error response is about.
    pub(crate) fn find(body: &str, sent: &[Parameter]) -> Option<Self> {
        let json = serde_json::from_str::<serde_json::Value>(body).ok();
        let field = json.as_ref().and_then(|json| json.pointer("/error/param").or_else(|| json.get("param"))?.as_str());
        if let Some(parameter) = field.and_then(|name| sent.iter().find(|parameter| parameter.is_called(name))) {
            return Some(Self::Field(parameter.clone()));
        }
        let text = body.to_lowercase();
        let named = sent.iter().filter_map(|parameter| Some((parameter.position(&text)?, parameter)));
        named.min_by_key(|(at, _)| *at).map(|(_, parameter)| Self::Words(parameter.clone()))
    }

    pub(crate) fn into_parameter(self) -> Parameter {
        match self {
            Self::Field(parameter) | Self::Words(parameter) => parameter,
        }
    }
}

/// Deviations from the default request that one model requires.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Adjustments {
    left_out: BTreeSet<Parameter>,
    /// Tools whose definition was refused, with the notice for an operator. One that has changed since is sent again.
    refused_tools: Vec<(ToolSpec, String)>,
    /// True if unsigned thoughts are sent back with the calls that followed from them.
    pub(crate) sends_thoughts: bool,
}

impl Adjustments {
    /// Returns whether a parameter is still sent.
    pub(crate) fn allows(&self, parameter: &Parameter) -> bool {
        !self.left_out.contains(parameter)
    }

    /// Leaves a parameter out of later requests. Returns whether that is new.
    pub(crate) fn leave_out(&mut self, parameter: Parameter) -> bool {
        self.left_out.insert(parameter)
    }

    /// Returns the notice for a tool that the provider refused.
    pub(crate) fn refusal_notice(&self, tool: &ToolSpec) -> Option<&str> {
        self.refused_tools.iter().find(|(refused, _)| refused == tool).map(|(_, notice)| notice.as_str())
    }

    /// Leaves a refused tool out of later requests, with this notice.
    pub(crate) fn leave_out_tool(&mut self, tool: ToolSpec, notice: String) {
        self.refused_tools.push((tool, notice));
    }

    /// Sends a tool again that was not the reason of a refusal.
    pub(crate) fn restore_tool(&mut self, tool: &ToolSpec) {
        self.refused_tools.retain(|(refused, _)| refused != tool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Parameter; 3] = [Parameter::Temperature, Parameter::MaxTokens, Parameter::ReasoningEffort];

    fn check(body: &str, sent: &[Parameter], expected: Option<Parameter>) {
        assert_eq!(Mention::find(body, sent).map(Mention::into_parameter), expected, "{body}");
    }

    #[test]
    fn finds_a_parameter_by_field_or_in_the_message() {
        let unsupported = r#"{"error": {"message": "Unsupported value: 'temperature' does not support 0.7 with this model.", "param": "temperature"}}"#;
        assert_eq!(Mention::find(unsupported, &ALL), Some(Mention::Field(Parameter::Temperature)));
        let large = r#"{"error": {"message": "max_tokens is too large: 20000.", "param": "max_tokens"}}"#;
        check(large, &ALL, Some(Parameter::MaxTokens));
        let anthropic = r#"{"type": "error", "error": {"message": "max_tokens: 99999 > 64000, which is the maximum"}}"#;
        assert_eq!(Mention::find(anthropic, &ALL), Some(Mention::Words(Parameter::MaxTokens)));
        check(r#"{"error": "\"llama3.2\" does not support thinking"}"#, &ALL, Some(Parameter::ReasoningEffort));
        check("`temperature` may only be set to 1 when thinking is enabled", &ALL, Some(Parameter::Temperature));
        check("it has a maxOutputTokens value of 9000", &ALL, Some(Parameter::MaxTokens));
        check(r#"{"error": {"param": "reasoning.effort"}}"#, &ALL, Some(Parameter::ReasoningEffort));
    }

    #[test]
    fn finds_only_sent_parameters_and_whole_words() {
        check("temperature is not supported", &[], None);
        check("temperature is not supported", &[Parameter::MaxTokens], None);
        check("the temperatures differ; my_max_tokens", &ALL, None);
        check("no such model", &ALL, None);
        let option = [Parameter::Option("top_k".to_owned())];
        check("Unrecognized request argument supplied: top_k", &option, Some(option[0].clone()));
        check("this response_format type is unavailable now", &[Parameter::JsonSchema], Some(Parameter::JsonSchema));
        check("'response_format.type' must be 'json_schema' or 'text'", &[Parameter::Json], Some(Parameter::Json));
    }

    #[test]
    fn leaves_a_parameter_out_once() {
        let mut adjustments = Adjustments::default();
        assert!(adjustments.allows(&Parameter::Temperature));
        assert!(adjustments.leave_out(Parameter::Temperature));
        assert!(!adjustments.leave_out(Parameter::Temperature));
        assert!(!adjustments.allows(&Parameter::Temperature) && adjustments.allows(&Parameter::MaxTokens));
    }
}
