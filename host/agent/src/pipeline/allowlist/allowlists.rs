//! The allowlists of a host, and the effective allowlist of a scope.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fumehood_core::time::Timestamp;

use super::envelope::{Envelope, EnvelopeError, EnvelopeKey};
use super::skill::Skill;

/// The allowlist of scopes without a skill and without a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DefaultAllowlist {
    /// No tool at all.
    #[default]
    Nothing,
    /// These tools.
    Only(BTreeSet<String>),
    /// Every registered tool: for programs that register only tools that may be called.
    Everything,
}

/// The allowlists of a host. The default has no skills, no channels and no key, and allows nothing.
#[derive(Debug, Clone, Default)]
pub struct Allowlists {
    /// The allowlist of scopes without a skill and without a channel.
    pub default: DefaultAllowlist,
    /// The skills, by name.
    pub skills: BTreeMap<String, Skill>,
    /// The tools of each channel, by its name, unless its envelope is made with others.
    pub channels: BTreeMap<String, BTreeSet<String>>,
    /// Tools that every skill may use: the agent's own, such as those of its memory.
    pub auto_tools: BTreeSet<String>,
    /// The key that envelopes are signed with.
    pub key: Option<EnvelopeKey>,
}

/// The names of the tools that may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// These tools.
    Only(BTreeSet<String>),
    /// All tools.
    Everything,
}

impl Allowed {
    /// Returns whether this name may be called.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::Only(names) => names.contains(name),
            Self::Everything => true,
        }
    }
}

/// The allowlist of one scope, and its messages.
#[derive(Debug, Clone)]
pub struct EffectiveAllowlist {
    /// The names; or the error of an envelope that is not valid, and then nothing may be called.
    pub allowed: Result<Allowed, EnvelopeError>,
    skill: Option<Arc<str>>,
}

impl EffectiveAllowlist {
    /// Returns whether this name may be called.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        self.allowed.as_ref().is_ok_and(|allowed| allowed.contains(name))
    }

    /// Returns whether the calls come from a channel and no skill is in use. Then errors use the wording for channels.
    #[must_use]
    pub fn is_channel(&self, has_envelope: bool) -> bool {
        has_envelope && self.skill.is_none()
    }

    /// Returns the message for a name that may not be called. It contains only this name and those that may be called.
    #[must_use]
    pub fn refusal_message(&self, name: &str) -> String {
        let names = match &self.allowed {
            Err(error) => return format!("[error: tool '{name}' is not permitted on this channel] ({error})"),
            Ok(Allowed::Only(names)) => names.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
            Ok(Allowed::Everything) => String::new(),
        };
        match &self.skill {
            Some(skill) => format!("Tool '{name}' is not allowed for skill '{skill}'. Allowed: [{names}]"),
            None => format!("[error: tool '{name}' is not permitted on this channel]"),
        }
    }
}

/// Errors returned by [`Allowlists::seal`].
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// No key to sign with.
    #[error("there is no key to sign the allowlist of the channel '{0}' with; give the pipeline one")]
    NoKey(String),
    /// An allowlist that cannot be serialized.
    #[error("the allowlist of the channel '{channel}' cannot be signed")]
    Envelope {
        /// The channel.
        channel: String,
        /// The reason.
        source: EnvelopeError,
    },
}

impl Allowlists {
    /// Signs the allowlist of a channel: the given tools, or else those of [`Allowlists::channels`], or else none.
    ///
    /// # Errors
    /// If there is no key, or the list cannot be serialized.
    pub fn seal(
        &self,
        channel: &str,
        tools: Option<BTreeSet<String>>,
        skill: Option<&str>,
        expires: Option<Timestamp>,
    ) -> Result<String, SealError> {
        let key = self.key.as_ref().ok_or_else(|| SealError::NoKey(channel.to_owned()))?;
        let tools = tools.or_else(|| self.channels.get(channel).cloned()).unwrap_or_default();
        let envelope = Envelope { channel: channel.to_owned(), skill: skill.map(str::to_owned), tools, expires };
        envelope.seal(key).map_err(|source| SealError::Envelope { channel: channel.to_owned(), source })
    }

    /// Resolves the allowlist of a scope with this skill and this envelope: the tools that both allow.
    #[must_use]
    pub fn resolve(&self, skill: Option<&Arc<str>>, envelope: Option<&str>, now: Timestamp) -> EffectiveAllowlist {
        let channel = envelope.map(|text| self.open(text, skill, now)).transpose();
        let skill_tools = skill.map(|name| self.skill_tools(name));
        let allowed = channel.map(|channel| match (channel, skill_tools) {
            (Some(channel), Some(skill)) => Allowed::Only(channel.intersection(&skill).cloned().collect()),
            (Some(only), None) | (None, Some(only)) => Allowed::Only(only),
            (None, None) => match &self.default {
                DefaultAllowlist::Nothing => Allowed::Only(BTreeSet::new()),
                DefaultAllowlist::Only(names) => Allowed::Only(names.clone()),
                DefaultAllowlist::Everything => Allowed::Everything,
            },
        });
        EffectiveAllowlist { allowed, skill: skill.cloned() }
    }

    /// Opens an envelope and checks that it is valid for the skill.
    fn open(&self, text: &str, skill: Option<&Arc<str>>, now: Timestamp) -> Result<BTreeSet<String>, EnvelopeError> {
        let key = self.key.as_ref().ok_or(EnvelopeError::NoKey)?;
        let envelope = Envelope::open(text, key, now)?;
        match &envelope.skill {
            Some(only) if Some(only.as_str()) != skill.map(AsRef::as_ref) => Err(EnvelopeError::OtherSkill),
            _ => Ok(envelope.tools),
        }
    }

    /// Returns the tools of a skill. An unknown skill may use none, not even the agent's own tools.
    fn skill_tools(&self, name: &str) -> BTreeSet<String> {
        let Some(skill) = self.skills.get(name) else { return BTreeSet::new() };
        skill.names().map(str::to_owned).chain(self.auto_tools.iter().cloned()).collect()
    }

    /// Returns every name that has to be registered: those of skills, with the skill, and the agent's own tools.
    pub fn tool_names(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        let skills =
            self.skills.iter().flat_map(|(name, skill)| skill.names().map(move |tool| (Some(name.as_str()), tool)));
        skills.chain(self.auto_tools.iter().map(|tool| (None, tool.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn lists() -> Allowlists {
        Allowlists {
            skills: [
                ("read".to_owned(), Skill::new().component_tool("fs__read").knowledge("faq")),
                ("write".to_owned(), Skill::new().component_tool("fs__write")),
            ]
            .into(),
            channels: [("support".to_owned(), names(&["fs__read", "orders"]))].into(),
            auto_tools: names(&["memory_read"]),
            key: EnvelopeKey::new([1; 32]).ok(),
            ..Allowlists::default()
        }
    }

    fn resolve(lists: &Allowlists, skill: Option<&str>, envelope: Option<&str>) -> EffectiveAllowlist {
        lists.resolve(skill.map(Arc::from).as_ref(), envelope, Timestamp(5))
    }

    #[test]
    fn a_skill_has_its_tools_those_of_the_agent_and_its_knowledge() {
        let allowed = resolve(&lists(), Some("read"), None).allowed.unwrap();
        assert_eq!(allowed, Allowed::Only(names(&["faq", "fs__read", "memory_read"])));
        assert_eq!(resolve(&lists(), Some("none"), None).allowed.unwrap(), Allowed::Only(names(&[])));
    }

    #[test]
    fn the_refusal_names_the_skill_and_what_is_allowed() {
        let text = resolve(&lists(), Some("read"), None).refusal_message("fs__write");
        assert_eq!(text, "Tool 'fs__write' is not allowed for skill 'read'. Allowed: [faq, fs__read, memory_read]");
    }

    #[test]
    fn a_channel_has_what_its_list_says_and_the_list_of_the_moment_goes_before_the_settings() {
        let lists = lists();
        let check = |tools: Option<&[&str]>, channel: &str, expected: &[&str]| {
            let envelope = lists.seal(channel, tools.map(names), None, None).unwrap();
            assert_eq!(resolve(&lists, None, Some(&envelope)).allowed, Ok(Allowed::Only(names(expected))));
        };
        check(None, "support", &["fs__read", "orders"]);
        check(Some(&["orders"]), "support", &["orders"]);
        check(Some(&[]), "support", &[]);
        check(None, "other", &[]);
        assert_eq!(resolve(&lists, None, None).allowed, Ok(Allowed::Only(names(&[]))));
    }

    #[test]
    fn skill_in_a_channel_may_use_only_common_tools() {
        let lists = lists();
        let envelope = lists.seal("support", None, None, None).unwrap();
        assert_eq!(resolve(&lists, Some("read"), Some(&envelope)).allowed, Ok(Allowed::Only(names(&["fs__read"]))));
        let envelope = lists.seal("support", None, Some("read"), None).unwrap();
        assert_eq!(resolve(&lists, Some("write"), Some(&envelope)).allowed, Err(EnvelopeError::OtherSkill));
        assert_eq!(resolve(&lists, None, Some(&envelope)).allowed, Err(EnvelopeError::OtherSkill));
    }

    #[test]
    fn a_damaged_envelope_allows_nothing() {
        let effective = resolve(&lists(), None, Some("a.b"));
        assert!(!effective.allows("fs__read"));
        assert!(effective.refusal_message("x").starts_with("[error: tool 'x' is not permitted on this channel]"));
    }
}
