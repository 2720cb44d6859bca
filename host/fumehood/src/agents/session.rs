//! Settings of an agent's session: its budget, prompt and answer, the actor, and the session that it is part of.

use std::sync::Arc;

use fumehood_agent::agent::ParentSession;
use fumehood_agent::budget::{Budget, TenantFuel};
use fumehood_agent::executor::Scope;
use fumehood_agent::session::{OutputSchema, SessionConfig};

use super::builder::AgentBuilder;

/// Setters of the session.
impl AgentBuilder {
    /// Sets the configuration of the session. Replaces the budget and the prompt that were set before.
    pub fn config(mut self, config: SessionConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets the limits of the session.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.config.budget = budget;
        self
    }

    /// Sets the system prompt: the role of the model and how it should behave.
    pub fn prompt(mut self, prompt: impl Into<String>) -> Self {
        self.config.prompt.agent = prompt.into();
        self
    }

    /// Sets the schema that the answer of each run must match. [`Outcome::text`] is then compact JSON.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use fumehood::Host;
    /// use fumehood::agent::session::OutputSchema;
    /// use fumehood::model::{ScriptedModel, ScriptedReply};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schema = serde_json::json!({"type": "object", "required": ["sum"], "properties": {"sum": {"type": "integer"}}});
    /// let model = ScriptedModel::new(vec![
    ///     ScriptedReply::text("It is 8."),
    ///     // The model was told what is wrong.
    ///     ScriptedReply::text(r#"{"sum": 8}"#).expect_text("no JSON object"),
    /// ]);
    /// let host = Host::builder().build()?;
    /// let mut agent = host.agent(Arc::new(model)).output_schema(OutputSchema::new(schema)?).build()?;
    /// assert_eq!(agent.run("What is 3 + 5?").await?.text(), r#"{"sum":8}"#);
    /// # host.shutdown(std::time::Duration::from_secs(1)).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Outcome::text`]: fumehood_agent::agent::Outcome::text
    pub fn output_schema(mut self, schema: OutputSchema) -> Self {
        self.config.output = Some(schema);
        self
    }

    /// Sets the maximum size of what a request repeats, in bytes; about four bytes are one token. By default there is no
    /// limit.
    ///
    /// Once there is more, the oldest results of calls are left out of the requests that follow: see
    /// [`OldestResultsFirst`]. The model gets a tool, [`READ_RESULT`], that reads what was left out or cut, while the
    /// program runs.
    ///
    /// [`OldestResultsFirst`]: fumehood_agent::session::OldestResultsFirst
    /// [`READ_RESULT`]: fumehood_agent::memory::READ_RESULT
    pub fn context_bytes(mut self, bytes: usize) -> Self {
        self.context_bytes = Some(bytes);
        self
    }

    /// Shows the model images that tools return, up to this many bytes of one result; by default they are described. A
    /// request repeats the newest, up to [`SessionConfig::image_bytes`]. The model has to take images: see
    /// `ProviderConfig::supports_images`.
    pub fn image_bytes(self, bytes: usize) -> Self {
        self.pipeline(move |pipeline| pipeline.image_bytes(bytes))
    }

    /// Sets the actor on whose behalf everything runs. The default is a guest.
    pub fn actor(mut self, actor: impl Into<Arc<str>>) -> Self {
        self.scope.actor = Some(actor.into());
        self
    }

    /// Sets the agent's state, as JSON text: a snapshot for tools that were granted it, until a hook changes it.
    pub fn state(mut self, state: impl Into<Arc<str>>) -> Self {
        self.scope.state = Some(state.into());
        self
    }

    /// Sets the actor, skill, envelope and state of every batch. Replaces those that were set before.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Makes the agent part of the session that calls it as a tool: see [`AgentTool`]. Its budget is at most what is left
    /// of that session's, and its actor is the same. Its records go to the same recorder unless it has one.
    ///
    /// Call this after [`Self::config`], [`Self::budget`] and [`Self::scope`], which it changes.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use fumehood::Host;
    /// use fumehood::agent::agent::AgentTool;
    /// use fumehood::agent::registry::BuiltIns;
    /// use fumehood::model::{ScriptedModel, ScriptedReply};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let host = Host::builder().build()?;
    /// let helpers = Arc::new(BuiltIns::default());
    /// let tools = host.clone();
    /// helpers.register_tool(Arc::new(AgentTool::new("poet", "Writes a rhyme about a thing", move |parent| {
    ///     let model = ScriptedModel::new(vec![ScriptedReply::text("The glass is tall, it holds them all.")]);
    ///     tools.agent(Arc::new(model)).child_of(parent).build().map_err(|error| error.to_string())
    /// })?))?;
    ///
    /// let model = ScriptedModel::new(vec![
    ///     ScriptedReply::call("poet", r#"{"task": "a fume hood"}"#),
    ///     ScriptedReply::text("Here it is.").expect_text("holds them all"),
    /// ]);
    /// let mut agent = host.agent(Arc::new(model)).built_ins(helpers).allow_everything().build()?;
    /// assert_eq!(agent.run("A rhyme, please.").await?.text(), "Here it is.");
    /// # host.shutdown(std::time::Duration::from_secs(1)).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`AgentTool`]: fumehood_agent::agent::AgentTool
    pub fn child_of(mut self, parent: &ParentSession) -> Self {
        self.config.budget = parent.reserve(&self.config.budget);
        parent.adopt(&mut self.scope);
        self.recorder.get_or_insert_with(|| parent.recorder());
        self
    }

    /// Sets the fuel that the session shares with others.
    pub fn tenant_fuel(mut self, fuel: Arc<TenantFuel>) -> Self {
        self.agent = self.agent.tenant_fuel(fuel);
        self
    }

    /// Keeps every input of the session in memory, so that it can be replayed.
    pub fn keep_inputs(mut self) -> Self {
        self.agent = self.agent.keep_inputs();
        self
    }

    /// Records the texts of requests and replies: see [`LoopBuilder::keep_texts`](fumehood_agent::agent::LoopBuilder::keep_texts).
    pub fn keep_texts(mut self) -> Self {
        self.agent = self.agent.keep_texts();
        self
    }
}
