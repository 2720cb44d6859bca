//! What the lists of a host make together for one scope.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fumehood_core::time::Timestamp;

use super::envelope::{Envelope, EnvelopeError, EnvelopeKey};
use super::skill::Skill;

/// What a scope may reach that names neither a skill nor a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Default {
    /// No tool at all.
    #[default]
    Nothing,
    /// These tools.
    Only(BTreeSet<String>),
    /// Every tool that is registered: for programs that register only what they want to be called.
    Everything,
}

/// The lists of a host. Starts with nothing: no skills, no channels, no key, and nothing is reachable.
#[derive(Debug, Clone, std::default::Default)]
pub struct Allowlists {
    /// What scopes reach that name neither a skill nor a channel.
    pub default: Default,
    /// The skills by name.
    pub skills: BTreeMap<String, Skill>,
    /// The tools of each channel by its name, unless the envelope is made with others.
    pub channels: BTreeMap<String, BTreeSet<String>>,
    /// Tools that every skill may use: the agent's own, such as those of its memory.
    pub auto_tools: BTreeSet<String>,
    /// What envelopes are signed with.
    pub key: Option<EnvelopeKey>,
}

/// The names that may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// These.
    Only(BTreeSet<String>),
    /// All.
    Everything,
}

impl Allowed {
    /// Whether this name may be called.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::Only(names) => names.contains(name),
            Self::Everything => true,
        }
    }
}

/// What one scope may reach, and how to say so.
#[derive(Debug, Clone)]
pub struct Effective {
    /// The names; or why the envelope does not count, and then nothing may be called.
    pub allowed: Result<Allowed, EnvelopeError>,
    skill: Option<Arc<str>>,
}

impl Effective {
    /// Whether this name may be called.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        self.allowed.as_ref().is_ok_and(|allowed| allowed.contains(name))
    }

    /// Whether the calls come from a channel and no skill is in use: then errors are in a channel's own words.
    #[must_use]
    pub fn is_channel(&self, has_envelope: bool) -> bool {
        has_envelope && self.skill.is_none()
    }

    /// Why this name may not be called. No name is in it but this one and those that may be called.
    #[must_use]
    pub fn refusal(&self, name: &str) -> String {
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

/// Why an envelope was not made.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// There is no key.
    #[error("there is no key to sign the allowlist of the channel '{0}' with; give the pipeline one")]
    NoKey(String),
    /// It cannot be written.
    #[error("the allowlist of the channel '{channel}' cannot be signed")]
    Envelope {
        /// Which channel.
        channel: String,
        /// Why.
        source: EnvelopeError,
    },
}

impl Allowlists {
    /// The signed allowlist of a channel: of the tools given here, or else of those that the host's settings give it,
    /// or else of none.
    ///
    /// # Errors
    /// If there is no key, or the list cannot be written.
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

    /// What a scope may reach that uses this skill and came with this envelope. Only what both allow.
    #[must_use]
    pub fn effective(&self, skill: Option<&Arc<str>>, envelope: Option<&str>, now: Timestamp) -> Effective {
        let of_channel = envelope.map(|text| self.open(text, skill, now)).transpose();
        let of_skill = skill.map(|name| self.of_skill(name));
        let allowed = of_channel.map(|of_channel| match (of_channel, of_skill) {
            (Some(channel), Some(skill)) => Allowed::Only(channel.intersection(&skill).cloned().collect()),
            (Some(only), None) | (None, Some(only)) => Allowed::Only(only),
            (None, None) => match &self.default {
                Default::Nothing => Allowed::Only(BTreeSet::new()),
                Default::Only(names) => Allowed::Only(names.clone()),
                Default::Everything => Allowed::Everything,
            },
        });
        Effective { allowed, skill: skill.cloned() }
    }

    fn open(&self, text: &str, skill: Option<&Arc<str>>, now: Timestamp) -> Result<BTreeSet<String>, EnvelopeError> {
        let key = self.key.as_ref().ok_or(EnvelopeError::NoKey)?;
        let envelope = Envelope::open(text, key, now)?;
        match &envelope.skill {
            Some(only) if Some(only.as_str()) != skill.map(AsRef::as_ref) => Err(EnvelopeError::OtherSkill),
            _ => Ok(envelope.tools),
        }
    }

    /// A skill that is not known may use nothing, not even the agent's own tools.
    fn of_skill(&self, name: &str) -> BTreeSet<String> {
        let Some(skill) = self.skills.get(name) else { return BTreeSet::new() };
        skill.names().map(str::to_owned).chain(self.auto_tools.iter().cloned()).collect()
    }

    /// Every name that a skill or the agent's own list has, with the skill: what has to be registered.
    pub fn named(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        let of_skills =
            self.skills.iter().flat_map(|(name, skill)| skill.names().map(move |tool| (Some(name.as_str()), tool)));
        of_skills.chain(self.auto_tools.iter().map(|tool| (None, tool.as_str())))
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

    fn of(lists: &Allowlists, skill: Option<&str>, envelope: Option<&str>) -> Effective {
        lists.effective(skill.map(Arc::from).as_ref(), envelope, Timestamp(5))
    }

    #[test]
    fn k15_a_skill_has_its_tools_those_of_the_agent_and_its_knowledge() {
        let allowed = of(&lists(), Some("read"), None).allowed.unwrap();
        assert_eq!(allowed, Allowed::Only(names(&["faq", "fs__read", "memory_read"])));
        assert_eq!(of(&lists(), Some("none"), None).allowed.unwrap(), Allowed::Only(names(&[])));
    }

    #[test]
    fn k16_the_refusal_names_the_skill_and_what_is_allowed() {
        let text = of(&lists(), Some("read"), None).refusal("fs__write");
        assert_eq!(text, "Tool 'fs__write' is not allowed for skill 'read'. Allowed: [faq, fs__read, memory_read]");
    }

    #[test]
    fn l4_a_channel_has_what_its_list_says_and_the_list_of_the_moment_goes_before_the_settings() {
        let lists = lists();
        let check = |tools: Option<&[&str]>, channel: &str, expected: &[&str]| {
            let envelope = lists.seal(channel, tools.map(names), None, None).unwrap();
            assert_eq!(of(&lists, None, Some(&envelope)).allowed, Ok(Allowed::Only(names(expected))));
        };
        check(None, "support", &["fs__read", "orders"]);
        check(Some(&["orders"]), "support", &["orders"]);
        check(Some(&[]), "support", &[]);
        check(None, "other", &[]);
        assert_eq!(of(&lists, None, None).allowed, Ok(Allowed::Only(names(&[]))));
    }

    #[test]
    fn a_skill_within_a_channel_has_only_what_both_allow() {
        let lists = lists();
        let envelope = lists.seal("support", None, None, None).unwrap();
        assert_eq!(of(&lists, Some("read"), Some(&envelope)).allowed, Ok(Allowed::Only(names(&["fs__read"]))));
        let envelope = lists.seal("support", None, Some("read"), None).unwrap();
        assert_eq!(of(&lists, Some("write"), Some(&envelope)).allowed, Err(EnvelopeError::OtherSkill));
        assert_eq!(of(&lists, None, Some(&envelope)).allowed, Err(EnvelopeError::OtherSkill));
    }

    #[test]
    fn l5_a_damaged_envelope_allows_nothing() {
        let effective = of(&lists(), None, Some("a.b"));
        assert!(!effective.allows("fs__read"));
        assert!(effective.refusal("x").starts_with("[error: tool 'x' is not permitted on this channel]"));
    }
}
