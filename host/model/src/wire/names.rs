//! Names of tools as providers take them, and back: ours may be longer and have dots.

use std::collections::{BTreeSet, HashMap};

use fumehood_core::chat::{Request, ToolChoice};

/// The longest name that every provider takes, in bytes.
const LONGEST: usize = 64;
/// Of those, the digits that tell names apart which begin alike, and the `_` before them.
const TAIL: usize = 9;

/// The names of one request that a provider would refuse, each with another that it takes. A name that fits is itself.
///
/// The same name becomes the same other one in every request, so that a conversation stays one; only where two would
/// become the same does it depend on which others there are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    theirs: HashMap<String, String>,
    ours: HashMap<String, String>,
}

impl Names {
    /// Those of the tools that it offers, of the one that it asks for, and of the calls that it tells of again.
    pub(crate) fn of(request: &Request) -> Self {
        let offered = request.tools.iter().map(|tool| tool.name.as_str());
        let told = request.messages.iter().flat_map(|message| message.tool_calls.iter().map(|call| call.name.as_str()));
        let chosen = match &request.tool_choice {
            ToolChoice::Specific(name) => Some(name.as_str()),
            ToolChoice::Auto | ToolChoice::Required | ToolChoice::None => None,
        };
        let all: BTreeSet<&str> = offered.chain(told).chain(chosen).collect();
        let (fitting, others): (BTreeSet<&str>, Vec<&str>) = {
            let (fitting, others): (Vec<&str>, Vec<&str>) = all.into_iter().partition(|name| fits(name));
            (fitting.into_iter().collect(), others)
        };
        let mut names = Self::default();
        for ours in others {
            let taken = |theirs: &String| fitting.contains(theirs.as_str()) || names.ours.contains_key(theirs);
            if let Some(theirs) = (0..=u32::MAX).map(|salt| alias(ours, salt)).find(|theirs| !taken(theirs)) {
                names.ours.insert(theirs.clone(), ours.to_owned());
                names.theirs.insert(ours.to_owned(), theirs);
            }
        }
        names
    }

    /// What the provider is told.
    pub(crate) fn theirs<'a>(&'a self, ours: &'a str) -> &'a str {
        self.theirs.get(ours).map_or(ours, String::as_str)
    }

    /// What the provider means. A name that it was never told stays as it is, for the loop to refuse.
    pub(crate) fn ours<'a>(&'a self, theirs: &'a str) -> &'a str {
        self.ours.get(theirs).map_or(theirs, String::as_str)
    }
}

/// Whether every provider takes the name: one of them wants a letter or `_` first.
fn fits(name: &str) -> bool {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && name.len() <= LONGEST && name.chars().all(is_theirs)
}

fn is_theirs(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// The beginning of the name, so that a model can still read it, and a number made of all of it.
fn alias(name: &str, salt: u32) -> String {
    let mut alias: String = name.chars().map(|c| if is_theirs(c) { c } else { '_' }).collect();
    if !alias.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        alias.insert(0, '_');
    }
    alias.truncate(LONGEST - TAIL);
    alias.push_str(&format!("_{:08x}", number(name, salt)));
    alias
}

/// FNV-1a: short, and the same in every release. Nothing rests on it but that names differ, which is looked at.
fn number(name: &str, salt: u32) -> u32 {
    let bytes = name.bytes().chain(salt.to_le_bytes());
    bytes.fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use fumehood_core::chat::{Message, ToolIntent, ToolSpec};
    use serde_json::json;

    use super::*;

    fn names(offered: &[&str]) -> Names {
        let spec = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: String::new(),
            parameters: json!({"type": "object"}),
        };
        Names::of(&Request { tools: offered.iter().map(spec).collect(), ..Request::default() })
    }

    #[test]
    fn a_name_that_fits_is_itself() {
        for name in ["add", "calculator__add", "a-b_C9", "_x", &"x".repeat(64)] {
            assert_eq!(names(&[name]).theirs(name), name);
            assert_eq!(names(&[name]).ours(name), name);
        }
    }

    #[test]
    fn any_other_becomes_one_that_fits_and_comes_back() {
        let long = "n".repeat(65);
        let longest = format!("{}__{}", "a".repeat(64), "b".repeat(64));
        let twin = format!("{}__{}c", "a".repeat(64), "b".repeat(63));
        let many = ["files.read", "files_read", "7zip__list", "-x", "", "ä\u{202e}", &long, &longest, &twin];
        let names = names(&many);
        let told: BTreeSet<&str> = many.iter().map(|name| names.theirs(name)).collect();
        assert_eq!(told.len(), many.len(), "{told:?}");
        for name in many {
            let theirs = names.theirs(name);
            assert!(fits(theirs), "{theirs}");
            assert_eq!(names.ours(theirs), name);
        }
        assert!(names.theirs(&longest).starts_with("aaaa"));
        assert_eq!(names.ours("never_told"), "never_told");
    }

    #[test]
    fn one_that_stands_for_another_gives_way_to_one_that_is_called_so() {
        let alone = names(&["a.b"]);
        let taken = alone.theirs("a.b").to_owned();
        let both = names(&["a.b", &taken]);
        assert_eq!((both.theirs(&taken), both.ours(&taken)), (taken.as_str(), taken.as_str()));
        assert_ne!(both.theirs("a.b"), taken);
        assert_eq!(both.ours(both.theirs("a.b")), "a.b");
    }

    #[test]
    fn a_call_that_is_told_again_has_the_name_that_its_tool_has() {
        let call = ToolIntent { id: "c".to_owned(), name: "files.read".to_owned(), arguments: "{}".to_owned() };
        let message = Message { tool_calls: vec![call], ..Message::assistant("") };
        let again = Names::of(&Request { messages: vec![message], ..Request::default() });
        assert_eq!(again.theirs("files.read"), names(&["files.read"]).theirs("files.read"));
    }
}
