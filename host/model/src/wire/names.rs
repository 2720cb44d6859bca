//! Tool names in the form that every provider accepts. Names of tools may be longer, and contain dots.

use std::collections::{BTreeSet, HashMap};

use fumehood_core::chat::{Request, ToolChoice};

/// Maximum size of a name that every provider accepts, in bytes.
const MAX_WIRE_NAME_BYTES: usize = 64;
/// Size of the hash at the end of an alias, with the `_` before it, in bytes.
const SUFFIX_BYTES: usize = 9;

/// Aliases for the tool names of one request that a provider would reject. Any other name is sent unchanged.
///
/// A name has the same alias in every request, so that a conversation stays consistent. Only where two aliases would
/// collide do they depend on the other names of the request.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolNames {
    to_wire: HashMap<String, String>,
    from_wire: HashMap<String, String>,
}

impl ToolNames {
    /// Collects the names of a request: of the tools it offers, of a tool it requires, and of the calls in its
    /// messages.
    pub(crate) fn from_request(request: &Request) -> Self {
        let offered = request.tools.iter().map(|tool| tool.name.as_str());
        let called =
            request.messages.iter().flat_map(|message| message.tool_calls.iter().map(|call| call.name.as_str()));
        let chosen = match &request.tool_choice {
            ToolChoice::Specific(name) => Some(name.as_str()),
            ToolChoice::Auto | ToolChoice::Required | ToolChoice::None => None,
        };
        let all: BTreeSet<&str> = offered.chain(called).chain(chosen).collect();
        let (accepted, others): (BTreeSet<&str>, Vec<&str>) = {
            let (accepted, others): (Vec<&str>, Vec<&str>) = all.into_iter().partition(|name| is_accepted(name));
            (accepted.into_iter().collect(), others)
        };
        let mut names = Self::default();
        for name in others {
            let is_taken = |alias: &String| accepted.contains(alias.as_str()) || names.from_wire.contains_key(alias);
            if let Some(alias) = (0..=u32::MAX).map(|salt| alias(name, salt)).find(|alias| !is_taken(alias)) {
                names.from_wire.insert(alias.clone(), name.to_owned());
                names.to_wire.insert(name.to_owned(), alias);
            }
        }
        names
    }

    /// Returns the name that is sent for a tool.
    pub(crate) fn to_wire<'a>(&'a self, name: &'a str) -> &'a str {
        self.to_wire.get(name).map_or(name, String::as_str)
    }

    /// Returns the tool that a name in an answer refers to. A name that was never sent is returned unchanged; the agent
    /// rejects it.
    pub(crate) fn resolve<'a>(&'a self, wire_name: &'a str) -> &'a str {
        self.from_wire.get(wire_name).map_or(wire_name, String::as_str)
    }
}

/// Returns whether every provider accepts the name. One of them requires a letter or `_` first.
fn is_accepted(name: &str) -> bool {
    let starts_well = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    starts_well && name.len() <= MAX_WIRE_NAME_BYTES && name.chars().all(is_accepted_char)
}

fn is_accepted_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Returns the beginning of the name, so that a model can still read it, followed by a hash of all of it.
fn alias(name: &str, salt: u32) -> String {
    let mut alias: String = name.chars().map(|c| if is_accepted_char(c) { c } else { '_' }).collect();
    if !alias.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        alias.insert(0, '_');
    }
    alias.truncate(MAX_WIRE_NAME_BYTES - SUFFIX_BYTES);
    alias.push_str(&format!("_{:08x}", hash(name, salt)));
    alias
}

/// Computes the FNV-1a hash, which is the same in every release. It need not resist collisions: those are detected.
fn hash(name: &str, salt: u32) -> u32 {
    let bytes = name.bytes().chain(salt.to_le_bytes());
    bytes.fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use fumehood_core::chat::{Message, ToolIntent, ToolSpec};
    use serde_json::json;

    use super::*;

    fn names(offered: &[&str]) -> ToolNames {
        let spec = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: String::new(),
            parameters: json!({"type": "object"}),
        };
        ToolNames::from_request(&Request { tools: offered.iter().map(spec).collect(), ..Request::default() })
    }

    #[test]
    fn accepted_name_is_sent_unchanged() {
        for name in ["add", "calculator__add", "a-b_C9", "_x", &"x".repeat(64)] {
            assert_eq!(names(&[name]).to_wire(name), name);
            assert_eq!(names(&[name]).resolve(name), name);
        }
    }

    #[test]
    fn other_names_have_aliases_that_resolve() {
        let long = "n".repeat(65);
        let longest = format!("{}__{}", "a".repeat(64), "b".repeat(64));
        let twin = format!("{}__{}c", "a".repeat(64), "b".repeat(63));
        let many = ["files.read", "files_read", "7zip__list", "-x", "", "ä\u{202e}", &long, &longest, &twin];
        let names = names(&many);
        let sent: BTreeSet<&str> = many.iter().map(|name| names.to_wire(name)).collect();
        assert_eq!(sent.len(), many.len(), "{sent:?}");
        for name in many {
            let alias = names.to_wire(name);
            assert!(is_accepted(alias), "{alias}");
            assert_eq!(names.resolve(alias), name);
        }
        assert!(names.to_wire(&longest).starts_with("aaaa"));
        assert_eq!(names.resolve("never_sent"), "never_sent");
    }

    #[test]
    fn alias_avoids_the_real_name_of_another_tool() {
        let alone = names(&["a.b"]);
        let taken = alone.to_wire("a.b").to_owned();
        let both = names(&["a.b", &taken]);
        assert_eq!((both.to_wire(&taken), both.resolve(&taken)), (taken.as_str(), taken.as_str()));
        assert_ne!(both.to_wire("a.b"), taken);
        assert_eq!(both.resolve(both.to_wire("a.b")), "a.b");
    }

    #[test]
    fn call_in_the_history_has_the_alias_of_its_tool() {
        let call = ToolIntent { id: "c".to_owned(), name: "files.read".to_owned(), arguments: "{}".to_owned() };
        let message = Message { tool_calls: vec![call], ..Message::assistant("") };
        let history = ToolNames::from_request(&Request { messages: vec![message], ..Request::default() });
        assert_eq!(history.to_wire("files.read"), names(&["files.read"]).to_wire("files.read"));
    }
}
