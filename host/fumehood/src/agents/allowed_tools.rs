//! The tools that an agent may call, and those that it sees from the start.

use std::collections::BTreeSet;
use std::sync::Arc;

use fumehood_agent::allowlist::{self, Allowlists, Channel, ChannelContext, EnvelopeKey, Skill};
use fumehood_agent::executor::Scope;
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

    /// Uses this skill: only its tools may be called. If a tool or a program implements it, no model is asked, and the
    /// result is the answer:
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use fumehood::agent::agent::NoModel;
    /// use fumehood::agent::allowlist::{Implementation, Skill};
    /// use fumehood::{Host, Load};
    ///
    /// #[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
    /// struct Sum {
    ///     result: f64,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
    /// let host = Host::builder().build()?;
    /// host.load(Load::path(path)).await?;
    ///
    /// let add = Implementation::Tool("calculator__add".to_owned());
    /// let skill = Skill::new().implemented_by(add).returns::<Sum>()?;
    /// let mut agent = host.agent(Arc::new(NoModel)).skill("add", skill).use_skill("add").build()?;
    /// assert_eq!(agent.run_as::<Sum>(r#"{"a": 3, "b": 5}"#).await?, Sum { result: 8.0 });
    /// # host.shutdown(std::time::Duration::from_secs(1)).await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn use_skill(mut self, name: impl Into<String>) -> Self {
        self.scope.skill = Some(Arc::from(name.into()));
        self
    }

    /// Adds a channel, or replaces the one of that name. `tools` are the full names of the tools that may be called in
    /// it.
    pub fn channel<N: Into<String>>(mut self, name: impl Into<String>, tools: impl IntoIterator<Item = N>) -> Self {
        self.allowlists.channels.insert(name.into(), Channel::new(tools));
        self
    }

    /// Uses this channel: only its tools may be called, and with a skill only those that both allow.
    ///
    /// Its context is signed when the agent is built, with the key of the allowlists or else with a random one: tools, age
    /// of replayed calls, and the skill and the actor in use, if there are any. It is valid for no other skill or actor,
    /// and replaces the envelope of [`Self::scope`].
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

/// Signs the context of a channel for this scope, with a random key if there is none.
pub(super) fn seal(allowlists: &mut Allowlists, channel: &str, scope: &Scope) -> Result<Arc<str>, AgentError> {
    if !allowlists.channels.contains_key(channel) {
        return Err(AgentError::UnknownChannel(channel.to_owned()));
    }
    if allowlists.key.is_none() {
        allowlists.key = Some(EnvelopeKey::random().map_err(|_| AgentError::Random)?);
    }
    let skill = scope.skill.as_deref().map(str::to_owned);
    let actor = scope.actor.as_deref().map(str::to_owned);
    Ok(allowlists.seal(channel, ChannelContext { skill, actor, ..ChannelContext::default() })?.into())
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
