//! An agent inside another program, made from its settings.

use std::collections::BTreeSet;
use std::sync::Arc;

use fumehood_agent::agent::{Agent, RunError};
use fumehood_agent::budget::Budget;
use fumehood_config::agent::BudgetSection;
use fumehood_config::embedding::AgentSettings;
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::policy::call::{Decision, Policy, PolicyFn};
use fumehood_core::tool::ValidatedCall;
use serde::de::IgnoredAny;
use tokio::sync::Mutex;

use super::questions::{Program, Questions};
use super::report::AgentReport;
use crate::settings::embedding::EmbeddedHost;
use crate::settings::error::SettingsError;

/// A conversation of the program's model with the tools of an [`EmbeddedHost`]. Clones share it.
#[derive(Debug, Clone)]
pub struct EmbeddedAgent {
    agent: Arc<Mutex<Agent>>,
    program: Arc<Program>,
}

impl EmbeddedAgent {
    /// Runs one message to its end. The model and the approver are the program, which gets their questions. A run that
    /// begins while another one is under way waits for its end. Dropping the future stops the guests, withdraws the
    /// questions and ends the run as cancelled.
    ///
    /// # Errors
    /// See [`Agent::run`].
    pub fn run(&self, message: String, questions: Arc<Questions>) -> BoxFuture<'static, Result<AgentReport, RunError>> {
        let Self { agent, program } = self.clone();
        Box::pin(async move {
            let mut agent = agent.lock().await;
            program.set_run(questions);
            agent.run(message).await.map(AgentReport::from)
        })
    }
}

impl EmbeddedHost {
    /// Creates an agent over the tools of this host. With `can_ask`, the program is asked about the calls of the tools
    /// that `ask` names, or about all calls if it is left out.
    ///
    /// # Errors
    /// If a tool is unknown, or the state is not JSON.
    pub fn agent(&self, settings: AgentSettings, can_ask: bool) -> Result<EmbeddedAgent, SettingsError> {
        let AgentSettings { system, allow, ask, budget, actor, state } = settings;
        let program = Arc::new(Program::default());
        let mut builder = self.host().agent(Arc::clone(&program) as _).budget(session_budget(&budget));
        if let Some(system) = system {
            builder = builder.prompt(system);
        }
        builder = match allow {
            Some(names) => builder.allow(self.full_names("allow", &names)?),
            None => builder.allow_everything(),
        };
        if can_ask {
            builder = builder.approver(Arc::clone(&program) as _);
        }
        let asked = match ask {
            Some(names) => Some(AskedTools::These(self.full_names("ask", &names)?)),
            None => can_ask.then_some(AskedTools::All),
        };
        if let Some(asked) = asked {
            builder = builder.pipeline(move |pipeline| pipeline.rule(ask_rule(asked)));
        }
        if let Some(actor) = actor {
            builder = builder.actor(actor);
        }
        if let Some(state) = state {
            serde_json::from_str::<IgnoredAny>(&state).map_err(|error| SettingsError::setting("state", error))?;
            builder = builder.state(state);
        }
        if let Some(servers) = self.servers() {
            builder = builder.provider(servers);
        }
        if let Some(recorder) = self.recorder() {
            builder = builder.recorder(recorder);
        }
        Ok(EmbeddedAgent { agent: Arc::new(Mutex::new(builder.build()?)), program })
    }

    /// Returns the full names of tools that a setting names.
    fn full_names(&self, setting: &str, names: &[String]) -> Result<BTreeSet<String>, SettingsError> {
        let full_name = |name: &String| {
            let missing = || {
                SettingsError::setting(
                    setting,
                    format!("unknown tool `{name}`; load its component or add its server first"),
                )
            };
            self.tool(name).map(|tool| tool.full_name().to_owned()).ok_or_else(missing)
        };
        names.iter().map(full_name).collect()
    }
}

/// The tools whose calls need an answer.
enum AskedTools {
    All,
    These(BTreeSet<String>),
}

/// Builds a rule that has the program asked about each call of these tools.
fn ask_rule(asked: AskedTools) -> Arc<dyn Policy> {
    Arc::new(PolicyFn::new("ask", move |call: &ValidatedCall, _: &CallContext| {
        let tool = call.tool().full_name();
        match &asked {
            AskedTools::These(names) if !names.contains(tool) => Decision::Allow,
            AskedTools::All | AskedTools::These(_) => Decision::ask(format!("may {tool} run?")),
        }
    }))
}

/// Returns the budget of a session with these settings. More calls for one message are allowed in the session as well.
fn session_budget(section: &BudgetSection) -> Budget {
    let defaults = Budget::default();
    let calls_in_all = defaults.calls_in_all.map(|calls| calls.max(section.calls.unwrap_or(0).into()));
    budget_over(section, Budget { calls_in_all, ..defaults })
}

/// Returns `defaults`, overridden by the section.
#[must_use]
pub fn budget_over(section: &BudgetSection, defaults: Budget) -> Budget {
    Budget {
        turns: section.turns.unwrap_or(defaults.turns),
        calls: section.calls.unwrap_or(defaults.calls),
        calls_in_all: section.calls_in_all.map(|count| count.0).or(defaults.calls_in_all),
        wall_time: section.wall_time.map(|time| time.0).or(defaults.wall_time),
        stream_time: section.stream_time.map(|time| time.0).or(defaults.stream_time),
        tokens_in: section.tokens_in.map(|count| count.0).or(defaults.tokens_in),
        tokens_out: section.tokens_out.map(|count| count.0).or(defaults.tokens_out),
        fuel: section.fuel.map(|count| count.0).or(defaults.fuel),
    }
}
