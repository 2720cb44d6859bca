//! The options that a saved session began with: those that a later run goes on with, and those that have to be typed again.
//!
//! Whoever can change a saved session could change what is stored with it. So it has nothing that gives power: components
//! and what is granted to them are typed again, and a configuration is named again. What is taken from it chooses the
//! model, or narrows what the model may do.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::ValueEnum as _;
use fumehood::agent::session::SavedSession;
use serde::{Deserialize, Serialize};

use super::{model, protocol};
use crate::args::run::{AgentArguments, CodeName, DecisionArguments, DriverName, ListedTools};
use crate::config::Config;
use crate::exit::UsageError;

/// The options of a session, as they are saved with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SavedSettings {
    /// The name of the model. `None` if its address was typed, too: its messages must not go elsewhere.
    model: Option<String>,
    code: Option<CodeName>,
    tools: Option<ListedTools>,
    /// The settings of the driver, which replays what it decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    final_model: Option<String>,
    stop_on_block: bool,
    stop_on_failure: bool,
    allow: Vec<String>,
    ask: Vec<String>,
    skill: Option<String>,
    channel: Option<String>,
    /// The configuration, if there was one.
    config: Option<PathBuf>,
    /// The tenant of a session over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// The options that have to be typed again, for people.
    to_repeat: Vec<String>,
}

impl SavedSettings {
    /// Takes the options of a session that begins.
    pub(crate) fn of(typed: &AgentArguments, config: &Config) -> Self {
        let model = match typed.model.base_url {
            Some(_) => None,
            None => model::selected_name(&typed.model, config),
        };
        let section = &config.agent;
        let decisions = &typed.decisions;
        let mut to_repeat: Vec<String> = typed.tool.iter().map(|file| format!("--tool {}", file.display())).collect();
        to_repeat.extend(typed.powers.words());
        Self {
            model,
            code: typed.code,
            tools: typed.tools,
            tool_choice: Some(protocol::tool_choice(config, typed).to_owned()),
            retries: Some(protocol::retries(config, typed)),
            final_model: decisions.final_model.as_ref().or(section.final_model.as_ref()).cloned(),
            stop_on_block: decisions.stop_on_block,
            stop_on_failure: decisions.stop_on_failure,
            allow: typed.allow.clone(),
            ask: typed.ask.clone(),
            skill: typed.skill.clone(),
            channel: typed.channel.clone(),
            config: Some(&config.origin).filter(|file| file.exists()).map(|file| absolute(file)),
            tenant: None,
            to_repeat,
        }
    }

    /// Sets the tenant of a session over HTTP.
    pub(crate) fn of_tenant(self, tenant: &str) -> Self {
        Self { tenant: Some(tenant.to_owned()), ..self }
    }

    /// Returns the tenant of a session over HTTP.
    pub(crate) fn into_tenant(self) -> Option<String> {
        self.tenant
    }

    /// Reads the options of a session that goes on; the default for one that has none.
    ///
    /// # Errors
    /// If they are malformed.
    pub(crate) fn read(saved: &SavedSession) -> Result<Self> {
        let Some(text) = saved.settings() else { return Ok(Self::default()) };
        serde_json::from_str(text).with_context(|| format!("the options of session {} cannot be read", saved.id()))
    }

    /// Returns the text that is saved.
    ///
    /// # Errors
    /// If a path is not text.
    pub(crate) fn to_text(&self) -> Result<String> {
        serde_json::to_string(self).context("the options of the session cannot be saved")
    }

    /// Checks that what gives power was named again.
    ///
    /// # Errors
    /// If it was not, with what to type.
    pub(crate) fn check(&self, typed: &AgentArguments, config: &Config, is_named: bool) -> Result<(), UsageError> {
        if let Some(before) = &self.config
            && !is_named
            && (!config.origin.exists() || absolute(&config.origin) != *before)
        {
            let before = before.display();
            let message = format!(
                "the session started with another configuration; add `--config {before}`, or name another file"
            );
            return Err(UsageError(message));
        }
        if typed.tool.is_empty() && !self.to_repeat.is_empty() {
            let message = format!(
                "the session started with components and powers from the command line, which are not saved; repeat \
                 the options: {}",
                self.to_repeat.join(" ")
            );
            return Err(UsageError(message));
        }
        self.check_driver_settings(&typed.decisions)
    }

    /// Checks that no other settings of the driver are typed than those that its decisions were made with.
    fn check_driver_settings(&self, typed: &DecisionArguments) -> Result<(), UsageError> {
        let settings = [
            ("--tool-choice", self.tool_choice.clone(), typed.tool_choice.clone()),
            (
                "--retries",
                self.retries.map(|retries| retries.to_string()),
                typed.retries.map(|retries| retries.to_string()),
            ),
            ("--final-model", self.final_model.clone(), typed.final_model.clone()),
        ];
        match settings.into_iter().find(|(_, saved, typed)| typed.is_some() && typed != saved) {
            Some((option, saved, _)) => {
                let began =
                    saved.map_or_else(|| format!("without `{option}`"), |saved| format!("with `{option} {saved}`"));
                Err(UsageError(format!("the session started {began}, which cannot be changed; leave it out")))
            }
            None => Ok(()),
        }
    }

    /// Completes what was typed. An option that was typed stays; lists of tools only get narrower.
    pub(crate) fn complete(self, typed: &AgentArguments, driver: Option<&str>) -> AgentArguments {
        let mut typed = typed.clone();
        if typed.model.script.is_none() {
            typed.model.model = typed.model.model.or(self.model);
        }
        typed.driver = typed.driver.or(driver.and_then(|name| DriverName::from_str(name, false).ok()));
        typed.code = typed.code.or(self.code);
        typed.tools = typed.tools.or(self.tools);
        // Checked above: what was typed is what was saved.
        let decisions = &mut typed.decisions;
        decisions.tool_choice = self.tool_choice.or(decisions.tool_choice.take());
        decisions.retries = self.retries.or(decisions.retries);
        decisions.final_model = self.final_model.or(decisions.final_model.take());
        decisions.stop_on_block |= self.stop_on_block;
        decisions.stop_on_failure |= self.stop_on_failure;
        typed.skill = typed.skill.or(self.skill);
        typed.channel = typed.channel.or(self.channel);
        if typed.allow.is_empty() {
            typed.allow = self.allow;
        }
        let asked: BTreeSet<String> = typed.ask.into_iter().chain(self.ask).collect();
        typed.ask = asked.into_iter().collect();
        typed
    }
}

fn absolute(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}
