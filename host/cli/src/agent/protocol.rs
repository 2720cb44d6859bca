//! The protocol between model and loop: the driver, with its settings from fumehood.toml and from options.

use fumehood::AgentBuilder;
use fumehood::agent::batch::BatchDriver;
use fumehood::agent::native::NativeDriver;
use fumehood::agent::react::ReactDriver;
use fumehood::chat::ToolChoice;

use super::settings;
use crate::args::run::{AgentArguments, DriverName};
use crate::config::Config;
use crate::exit::UsageError;

/// The driver of a session, and its settings.
#[derive(Debug)]
pub(crate) struct Protocol {
    driver: DriverName,
    tool_choice: ToolChoice,
    retries: u32,
    separate_answer: bool,
    final_model: Option<String>,
}

impl Protocol {
    /// Reads the settings. An option goes before the configuration.
    ///
    /// # Errors
    /// If a setting belongs to another driver.
    pub(crate) fn read(config: &Config, typed: &AgentArguments) -> Result<Self, UsageError> {
        let section = &config.agent;
        let driver = settings::driver(config, typed.driver);
        let tool_choice = parse_tool_choice(tool_choice(config, typed));
        let final_model = typed.decisions.final_model.as_ref().or(section.final_model.as_ref()).cloned();
        if driver != DriverName::Native && tool_choice != ToolChoice::Auto {
            return Err(wrong_driver("tool_choice", "--tool-choice", "native", driver));
        }
        if driver != DriverName::React && final_model.is_some() {
            return Err(wrong_driver("final_model", "--final-model", "react", driver));
        }
        Ok(Self {
            driver,
            tool_choice,
            retries: retries(config, typed),
            separate_answer: section.separate_answer || final_model.is_some(),
            final_model,
        })
    }

    /// Returns the tool that the model must call, if it is a certain one.
    pub(crate) fn required_tool(&self) -> Option<&str> {
        match &self.tool_choice {
            ToolChoice::Specific(tool) => Some(tool),
            _ => None,
        }
    }

    /// Sets the driver.
    pub(crate) fn apply(self, builder: AgentBuilder) -> AgentBuilder {
        match self.driver {
            DriverName::Native => {
                builder.driver(NativeDriver::new().tool_choice(self.tool_choice).max_retries(self.retries))
            }
            DriverName::React => {
                let driver = ReactDriver::new().final_via_inference(self.separate_answer).max_retries(self.retries);
                builder.driver(match self.final_model {
                    Some(model) => driver.final_model(model),
                    None => driver,
                })
            }
            DriverName::Batch => builder.driver(BatchDriver::new().max_retries(self.retries)),
        }
    }
}

/// Returns the number of times in a row that the model is asked again after a reply that is no decision.
pub(crate) fn retries(config: &Config, typed: &AgentArguments) -> u32 {
    let usual = match settings::driver(config, typed.driver) {
        DriverName::Native => 1,
        DriverName::React | DriverName::Batch => 2,
    };
    typed.decisions.retries.or(config.agent.retries).unwrap_or(usual)
}

/// Returns the text of the tool choice, as [`parse_tool_choice`] reads it.
pub(crate) fn tool_choice<'a>(config: &'a Config, typed: &'a AgentArguments) -> &'a str {
    typed.decisions.tool_choice.as_deref().or(config.agent.tool_choice.as_deref()).unwrap_or("auto")
}

/// Parses a tool choice: one of three words, or the full name of a tool.
fn parse_tool_choice(text: &str) -> ToolChoice {
    match text {
        "auto" => ToolChoice::Auto,
        "required" => ToolChoice::Required,
        "none" => ToolChoice::None,
        tool => ToolChoice::Specific(tool.to_owned()),
    }
}

fn wrong_driver(key: &str, option: &str, wanted: &str, driver: DriverName) -> UsageError {
    let driver = driver.as_str();
    UsageError(format!(
        "`{option}` (`{key}` in [agent] of fumehood.toml) works only with the driver `{wanted}`, but the driver is \
         `{driver}`; leave it out, or use `--driver {wanted}`"
    ))
}
