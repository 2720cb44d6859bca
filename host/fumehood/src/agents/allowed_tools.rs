//! The tools that an agent may call, and those that it sees from the start.

use std::collections::BTreeSet;
use std::sync::Arc;

use fumehood_agent::allowlist::{self, Allowlists, EnvelopeKey, Skill};
use fumehood_agent::tool_search::ToolSearch;

use super::builder::AgentBuilder;
use super::error::AgentError;

/// Setters of the tools that may be called.
impl AgentBuilder {
    /// Allows every tool, now and later, unless a skill or a channel restricts them: for programs that load only tools
    /// that may be called.
    pub fn allow_everything(mut self) -> Self {
        self.allowlists.default = allowlist::DefaultAllowlist::Everything;
        self
    }

    /// Allows these tools, by their full names, in addition to those that were allowed before.
    pub fn allow<N: Into<String>>(mut self, tools: impl IntoIterator<Item = N>) -> Self {
        let tools = tools.into_iter().map(Into::into);
        match &mut self.allowlists.default {
            allowlist::DefaultAllowlist::Everything => {}
            allowlist::DefaultAllowlist::Only(names) => names.extend(tools),
            allowlist::DefaultAllowlist::Nothing => {
                self.allowlists.default = allowlist::DefaultAllowlist::Only(tools.collect())
            }
        }
        self
    }

    /// Adds a skill, or replaces the one of that name.
    pub fn skill(mut self, name: impl Into<String>, skill: Skill) -> Self {
        self.allowlists.skills.insert(name.into(), skill);
        self
    }

    /// Uses this skill: only its tools may be called.
    pub fn use_skill(mut self, name: impl Into<String>) -> Self {
        self.scope.skill = Some(Arc::from(name.into()));
        self
    }

    /// Adds a channel, or replaces the one of that name. `tools` are the full names of the tools that may be called in
    /// it.
    pub fn channel<N: Into<String>>(mut self, name: impl Into<String>, tools: impl IntoIterator<Item = N>) -> Self {
        self.allowlists.channels.insert(name.into(), tools.into_iter().map(Into::into).collect());
        self
    }

    /// Uses this channel: only its tools may be called, and with a skill only those that both allow. Its list is signed
    /// here, with the key of the allowlists or else with a random one. It replaces the envelope of [`Self::scope`].
    pub fn use_channel(mut self, name: impl Into<String>) -> Self {
        self.channel = Some(name.into());
        self
    }

    /// Sets all allowlists at once: skills, channels and their key. Replaces those that were set before.
    pub fn allowlists(mut self, allowlists: Allowlists) -> Self {
        self.allowlists = allowlists;
        self
    }

    /// Lists only built-in functions and pinned tools to the model, and lets it find the others with `search_tools`: for
    /// hosts with many tools, whose definitions would take most of each request. By default all tools are listed.
    pub fn tool_search(self, search: ToolSearch) -> Self {
        self.pipeline(move |pipeline| pipeline.tool_search(search))
    }
}

/// Signs the list of a channel, with a random key if there is none.
pub(super) fn seal(allowlists: &mut Allowlists, channel: &str) -> Result<Arc<str>, AgentError> {
    if !allowlists.channels.contains_key(channel) {
        return Err(AgentError::UnknownChannel(channel.to_owned()));
    }
    if allowlists.key.is_none() {
        allowlists.key = Some(EnvelopeKey::random().map_err(|_| AgentError::Random)?);
    }
    Ok(allowlists.seal(channel, None, None, None)?.into())
}

/// Allows these tools in addition to the others.
pub(super) fn always<const N: usize>(default: &mut allowlist::DefaultAllowlist, names: [&str; N]) {
    let names = names.map(str::to_owned);
    match default {
        allowlist::DefaultAllowlist::Everything => {}
        allowlist::DefaultAllowlist::Only(only) => only.extend(names),
        allowlist::DefaultAllowlist::Nothing => *default = allowlist::DefaultAllowlist::Only(BTreeSet::from(names)),
    }
}
