//! The allowlists of a host, and the effective allowlist of a scope.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::time::Timestamp;

use super::envelope::{Envelope, EnvelopeError, EnvelopeKey};
use super::skill::{Implementation, Skill};

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

/// The settings of a channel, unless its envelope is made with others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Channel {
    /// The full names of the tools that may be called in it.
    pub tools: BTreeSet<String>,
    /// The maximum age of calls that are replayed to the model at the start of a run; `None` for that of the session.
    pub replay_freshness: Option<Duration>,
}

impl Channel {
    /// Creates a channel with these tools, by their full names.
    pub fn new<N: Into<String>>(tools: impl IntoIterator<Item = N>) -> Self {
        Self { tools: tools.into_iter().map(Into::into).collect(), replay_freshness: None }
    }

    /// Sets the maximum age of calls that are replayed to the model at the start of a run. Zero replays none.
    #[must_use]
    pub fn replay_freshness(mut self, age: Duration) -> Self {
        self.replay_freshness = Some(age);
        self
    }
}

/// The context that an envelope of a channel is made with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelContext {
    /// The full names of the tools that may be called; `None` for those of the channel.
    pub tools: Option<BTreeSet<String>>,
    /// The only skill that it is valid for; `None` for all.
    pub skill: Option<String>,
    /// The only actor that it is valid for; `None` for everybody, guests included.
    pub actor: Option<String>,
    /// The maximum age of calls that are replayed; `None` for that of the channel.
    pub replay_freshness: Option<Duration>,
    /// The time from which on it is expired; `None` for never.
    pub expires: Option<Timestamp>,
}

/// The allowlists of a host. The default has no skills, no channels and no key, and allows nothing.
///
/// ```
/// use std::collections::{BTreeMap, BTreeSet};
///
/// use fumehood_agent::allowlist::{Allowlists, DefaultAllowlist, Skill};
///
/// // Within a skill, only its tools are allowed.
/// let skills = BTreeMap::from([("triage".to_owned(), Skill::new().component_tool("issues__search"))]);
/// let default = DefaultAllowlist::Only(BTreeSet::from(["calculator__add".to_owned()]));
/// let allowlists = Allowlists { default, skills, ..Allowlists::default() };
/// assert!(allowlists.channels.is_empty() && allowlists.key.is_none());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Allowlists {
    /// The allowlist of scopes without a skill and without a channel.
    pub default: DefaultAllowlist,
    /// The skills, by name.
    pub skills: BTreeMap<String, Skill>,
    /// The channels, by name.
    pub channels: BTreeMap<String, Channel>,
    /// Tools that every skill may use: the agent's own, such as those of its memory.
    pub auto_tools: BTreeSet<String>,
    /// The key that envelopes are signed with.
    pub key: Option<EnvelopeKey>,
}

/// The names of the tools that may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// These tools.
    Only(BTreeSet<String>),
    /// All tools.
    Everything,
}

impl Allowed {
    /// Returns whether this name may be called.
    #[must_use]
    pub(crate) fn contains(&self, name: &str) -> bool {
        match self {
            Self::Only(names) => names.contains(name),
            Self::Everything => true,
        }
    }
}

/// The allowlist of one scope, and its messages.
#[derive(Debug, Clone)]
pub(crate) struct EffectiveAllowlist {
    /// The names; or the error of an envelope that is not valid, and then nothing may be called.
    pub(crate) allowed: Result<Allowed, EnvelopeError>,
    /// The implementation of the skill, if no model runs it.
    pub(crate) implementation: Option<Implementation>,
    skill: Option<Arc<str>>,
}

impl EffectiveAllowlist {
    /// Returns whether this name may be called.
    #[must_use]
    pub(crate) fn allows(&self, name: &str) -> bool {
        self.allowed.as_ref().is_ok_and(|allowed| allowed.contains(name))
    }

    /// Returns whether the calls come from a channel and no skill is in use. Then errors use the wording for channels.
    #[must_use]
    pub(crate) fn is_channel(&self, has_envelope: bool) -> bool {
        has_envelope && self.skill.is_none()
    }

    /// Returns the message for a name that may not be called. It contains only this name and those that may be called.
    #[must_use]
    pub(crate) fn refusal_message(&self, name: &str) -> String {
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
    #[error("no key to sign the allowlist of the channel '{0}'; give the pipeline a key")]
    NoKey(String),
    /// An allowlist that cannot be serialized.
    #[error("cannot sign the allowlist of the channel '{channel}'")]
    Envelope {
        /// The channel.
        channel: String,
        /// The reason.
        source: EnvelopeError,
    },
}

impl Allowlists {
    /// Signs the context of a channel. What it leaves open is as [`Allowlists::channels`] has it: without either there are
    /// no tools.
    ///
    /// # Errors
    /// If there is no key, or the context cannot be serialized.
    pub fn seal(&self, channel: &str, context: ChannelContext) -> Result<String, SealError> {
        let key = self.key.as_ref().ok_or_else(|| SealError::NoKey(channel.to_owned()))?;
        let ChannelContext { tools, skill, actor, replay_freshness, expires } = context;
        let settings = self.channels.get(channel);
        let tools = tools.or_else(|| settings.map(|channel| channel.tools.clone())).unwrap_or_default();
        let replay_freshness = replay_freshness.or_else(|| settings?.replay_freshness);
        let replay_freshness_ms = replay_freshness.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        let channel = channel.to_owned();
        let envelope = Envelope { channel: channel.clone(), skill, actor, tools, replay_freshness_ms, expires };
        envelope.seal(key).map_err(|source| SealError::Envelope { channel, source })
    }

    /// Resolves the allowlist of a scope with this skill, this actor and this envelope: the tools that skill and envelope
    /// both allow.
    #[must_use]
    pub(crate) fn resolve(
        &self,
        skill: Option<&Arc<str>>,
        actor: Option<&str>,
        envelope: Option<&str>,
        now: Timestamp,
    ) -> EffectiveAllowlist {
        let implementation = self.find_skill(skill).and_then(Skill::implementation).cloned();
        let channel = envelope.map(|text| self.open(text, skill, actor, now).map(|opened| opened.tools)).transpose();
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
        EffectiveAllowlist { allowed, implementation, skill: skill.cloned() }
    }

    /// Returns the maximum age of calls that are replayed within a scope, if its envelope has one. An envelope that is not
    /// valid lets nothing be replayed.
    #[must_use]
    pub(crate) fn replay_freshness(
        &self,
        skill: Option<&Arc<str>>,
        actor: Option<&str>,
        envelope: Option<&str>,
        now: Timestamp,
    ) -> Option<Duration> {
        match self.open(envelope?, skill, actor, now) {
            Ok(opened) => opened.replay_freshness_ms.map(Duration::from_millis),
            Err(_) => Some(Duration::ZERO),
        }
    }

    /// Returns the skill of this name, if there is one.
    pub(crate) fn find_skill(&self, name: Option<&Arc<str>>) -> Option<&Skill> {
        self.skills.get(name?.as_ref())
    }

    /// Opens an envelope and checks that it is valid for the skill and the actor.
    fn open(
        &self,
        text: &str,
        skill: Option<&Arc<str>>,
        actor: Option<&str>,
        now: Timestamp,
    ) -> Result<Envelope, EnvelopeError> {
        let key = self.key.as_ref().ok_or(EnvelopeError::NoKey)?;
        Envelope::open_for(text, key, skill.map(AsRef::as_ref), actor, now)
    }

    /// Returns the tools of a skill. An unknown skill may use none, not even the agent's own tools.
    fn skill_tools(&self, name: &str) -> BTreeSet<String> {
        let Some(skill) = self.skills.get(name) else { return BTreeSet::new() };
        skill.names().map(str::to_owned).chain(self.auto_tools.iter().cloned()).collect()
    }

    /// Returns every name that has to be registered: those of skills, with the skill, and the agent's own tools.
    pub(crate) fn tool_names(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
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
            channels: [("support".to_owned(), Channel::new(["fs__read", "orders"]))].into(),
            auto_tools: names(&["memory_read"]),
            key: EnvelopeKey::new([1; 32]).ok(),
            ..Allowlists::default()
        }
    }

    fn resolve(lists: &Allowlists, skill: Option<&str>, envelope: Option<&str>) -> EffectiveAllowlist {
        lists.resolve(skill.map(Arc::from).as_ref(), None, envelope, Timestamp(5))
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
        fn check(lists: &Allowlists, tools: Option<&[&str]>, channel: &str, expected: &[&str]) {
            let envelope =
                lists.seal(channel, ChannelContext { tools: tools.map(names), ..ChannelContext::default() }).unwrap();
            assert_eq!(resolve(lists, None, Some(&envelope)).allowed, Ok(Allowed::Only(names(expected))));
        }

        let lists = lists();
        check(&lists, None, "support", &["fs__read", "orders"]);
        check(&lists, Some(&["orders"]), "support", &["orders"]);
        check(&lists, Some(&[]), "support", &[]);
        check(&lists, None, "other", &[]);
        assert_eq!(resolve(&lists, None, None).allowed, Ok(Allowed::Only(names(&[]))));
    }

    #[test]
    fn skill_in_a_channel_may_use_only_common_tools() {
        let lists = lists();
        let envelope = lists.seal("support", ChannelContext::default()).unwrap();
        assert_eq!(resolve(&lists, Some("read"), Some(&envelope)).allowed, Ok(Allowed::Only(names(&["fs__read"]))));
        let context = ChannelContext { skill: Some("read".to_owned()), ..ChannelContext::default() };
        let envelope = lists.seal("support", context).unwrap();
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
