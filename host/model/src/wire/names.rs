//! Tool names in the form that every provider accepts.

use fumehood_core::chat::{Request, ToolChoice};
use fumehood_core::tool::{NameForm, ToolAliases};

/// Names that the client library takes for built-in tools of Gemini.
pub(super) const GEMINI_BUILT_IN: &[&str] = &["googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext"];

/// Aliases for the tool names of one request that a provider would reject, or that the operator wants to be shorter. Any
/// other name is sent unchanged.
///
/// A name has the same alias in every request, so that a conversation stays consistent. Only where two aliases would
/// collide do they depend on the other names of the request.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolNames(ToolAliases);

impl ToolNames {
    /// Collects the names of a request: of the tools it offers, of a tool it requires, and of the calls in its
    /// messages.
    pub(crate) fn from_request(request: &Request) -> Self {
        let is_free = |alias: &&str| !GEMINI_BUILT_IN.contains(alias);
        let offered = request.tools.iter().map(|tool| (tool.name.as_str(), tool.alias.as_deref().filter(is_free)));
        let called = request.messages.iter().flat_map(|message| &message.tool_calls).map(|call| call.name.as_str());
        let chosen = match &request.tool_choice {
            ToolChoice::Specific(name) => Some(name.as_str()),
            ToolChoice::Auto | ToolChoice::Required | ToolChoice::None => None,
        };
        let further = called.chain(chosen).map(|name| (name, None));
        Self(ToolAliases::new(offered.chain(further), NameForm::Portable))
    }

    /// Returns the name that is sent for a tool.
    pub(crate) fn to_wire<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.alias(name)
    }

    /// Returns the tool that a name in an answer refers to: see [`ToolAliases::resolve`]. A name that was never sent is
    /// returned unchanged; the agent rejects it.
    pub(crate) fn resolve<'a>(&'a self, wire_name: &'a str) -> &'a str {
        self.0.resolve(wire_name).unwrap_or(wire_name)
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::chat::{Message, ToolIntent, ToolSpec};

    use super::*;

    fn names(offered: &[(&str, Option<&str>)]) -> ToolNames {
        let tools = offered.iter().map(|(name, alias)| ToolSpec {
            name: (*name).to_owned(),
            alias: alias.map(str::to_owned),
            ..ToolSpec::default()
        });
        ToolNames::from_request(&Request { tools: tools.collect(), ..Request::default() })
    }

    #[test]
    fn wanted_and_portable_names_are_sent() {
        let names = names(&[
            ("gh__search", Some("search")),
            ("m__a.b", None),
            ("web__googleSearch", Some("googleSearch")),
            ("add", None),
        ]);
        assert_eq!((names.to_wire("gh__search"), names.to_wire("add")), ("search", "add"));
        assert!(names.to_wire("m__a.b").starts_with("m__a_b_"));
        assert_eq!(names.to_wire("web__googleSearch"), "web__googleSearch", "the short one is Gemini's own");
        for name in ["search", "gh__search", "functions.search:0"] {
            assert_eq!(names.resolve(name), "gh__search");
        }
        assert_eq!(names.resolve("never_sent"), "never_sent");
    }

    #[test]
    fn call_in_the_history_has_the_alias_of_its_tool() {
        let call = ToolIntent { id: "c".to_owned(), name: "files.read".to_owned(), arguments: "{}".to_owned() };
        let message = Message { tool_calls: vec![call], ..Message::assistant("") };
        let history = ToolNames::from_request(&Request { messages: vec![message], ..Request::default() });
        assert_eq!(history.to_wire("files.read"), names(&[("files.read", None)]).to_wire("files.read"));
    }
}
