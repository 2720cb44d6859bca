//! Settings of the loop from fumehood.toml, overridden by options.

use std::num::NonZeroUsize;

use anyhow::Result;
use fumehood::agent::budget::Budget;
use fumehood::agent::knowledge::Knowledge;
use fumehood::agent::pipeline::Modes;
use fumehood::agent::registry::BuiltIns;
use fumehood::agent::session::{Prompt, Repetition, SessionConfig};
use fumehood::model::{Key, ProviderConfig};
use fumehood::record::Durability;

use crate::args::run::{AgentArguments, BudgetArguments, DriverName};
use crate::config::Config;
use crate::config::agent::DriverName as ConfiguredDriver;
use crate::config::model::{ModelSection, Temperature};
use crate::exit::UsageError;
use crate::source::{secret, text};

/// The settings of the provider. The address and the key are left out where they are not the chosen provider's.
///
/// # Errors
/// If the key is not where the configuration says.
pub(crate) fn provider(config: &Config, is_its_own: bool) -> Result<ProviderConfig> {
    let ModelSection { key_over_plain_http, temperature, supports_tools, .. } = config.model;
    let section = &config.model;
    let mut settings = ProviderConfig { key_over_plain_http, ..ProviderConfig::default() };
    settings.proxy.clone_from(&section.proxy);
    if is_its_own {
        settings.base_url.clone_from(&section.base_url);
        let key = section.key.as_ref().map(|source| secret(config, source, "[model] key")).transpose()?;
        settings.key = key.map(Key::new);
    }
    match temperature {
        Some(Temperature::Number(number)) => settings.temperature = Some(number),
        Some(Temperature::Provider(_)) => settings.temperature = None,
        None => {}
    }
    settings.supports_tools = supports_tools.unwrap_or(settings.supports_tools);
    settings.max_reply_bytes = section.max_reply.map_or(settings.max_reply_bytes, |bytes| bytes.0);
    let timeouts = &mut settings.timeouts;
    timeouts.connect = section.connect_timeout.map_or(timeouts.connect, |time| time.0);
    timeouts.first_byte = section.first_byte_timeout.map_or(timeouts.first_byte, |time| time.0);
    timeouts.between_chunks = section.between_chunks_timeout.map_or(timeouts.between_chunks, |time| time.0);
    timeouts.total = section.timeout.map_or(timeouts.total, |time| time.0);
    settings.retries.most = section.retries.unwrap_or(settings.retries.most);
    Ok(settings)
}

/// Selects the protocol between model and loop.
pub(crate) fn driver(config: &Config, typed: Option<DriverName>) -> DriverName {
    let configured = config.agent.driver.map(|driver| match driver {
        ConfiguredDriver::Native => DriverName::Native,
        ConfiguredDriver::React => DriverName::React,
        ConfiguredDriver::Batch => DriverName::Batch,
    });
    typed.or(configured).unwrap_or(DriverName::Native)
}

/// The entries of knowledge, as tools.
///
/// # Errors
/// If a text cannot be read, or a name is none.
pub(crate) fn knowledge(config: &Config) -> Result<BuiltIns> {
    let entries = BuiltIns::default();
    for (name, section) in &config.knowledge {
        let text = text(config, &section.text)?;
        let entry = Knowledge::text(name, &section.description, text);
        let entry = entry.map_err(|error| UsageError(format!("[knowledge.{name}] of fumehood.toml: {error}")))?;
        entries.register_tool(std::sync::Arc::new(entry))?;
    }
    Ok(entries)
}

/// Modes of batches of calls.
pub(crate) fn modes(config: &Config) -> Modes {
    let usual = Modes::default();
    let concurrency = config.agent.concurrency.and_then(|most| NonZeroUsize::try_from(most).ok());
    Modes {
        concurrency: concurrency.unwrap_or(usual.concurrency),
        durability: if config.agent.durable { Durability::Durable } else { usual.durability },
        ..usual
    }
}

/// Configures the session.
///
/// # Errors
/// If a text cannot be read.
pub(crate) fn session(config: &Config, typed: &AgentArguments, skill: Option<&str>) -> Result<SessionConfig> {
    let section = &config.agent;
    let configured = section.system.as_ref().map(|source| text(config, source)).transpose()?;
    let of_skill = skill.and_then(|name| config.skills.get(name));
    let instructions = of_skill.and_then(|skill| skill.instructions.as_ref());
    let instructions = instructions.map(|source| text(config, source)).transpose()?;
    let of_skill = of_skill.map(|skill| match instructions {
        Some(instructions) => format!("{}\n\n{instructions}", skill.description),
        None => skill.description.clone(),
    });
    let usual = SessionConfig::default();
    Ok(SessionConfig {
        prompt: Prompt { agent: typed.system.clone().or(configured).unwrap_or_default(), skill: of_skill },
        budget: budget(&typed.budget, configured_budget(config)),
        repetition: match section.repetitions {
            Some(times) => Some(Repetition { times, then: Default::default() }),
            None => usual.repetition,
        },
        failed_batches: section.failed_batches.or(usual.failed_batches),
        ..usual
    })
}

fn configured_budget(config: &Config) -> Budget {
    let (section, usual) = (&config.agent.budget, Budget::default());
    Budget {
        turns: section.turns.unwrap_or(usual.turns),
        calls: section.calls.unwrap_or(usual.calls),
        calls_in_all: section.calls_in_all.map(|count| count.0).or(usual.calls_in_all),
        wall_time: section.wall_time.map(|time| time.0).or(usual.wall_time),
        stream_time: section.stream_time.map(|time| time.0).or(usual.stream_time),
        tokens_in: section.tokens_in.map(|count| count.0).or(usual.tokens_in),
        tokens_out: section.tokens_out.map(|count| count.0).or(usual.tokens_out),
        fuel: section.fuel.map(|count| count.0).or(usual.fuel),
    }
}

fn budget(typed: &BudgetArguments, usual: Budget) -> Budget {
    Budget {
        turns: typed.max_turns.unwrap_or(usual.turns),
        calls: typed.max_calls.unwrap_or(usual.calls),
        // Whoever allows more calls for one message means those for the session as well.
        calls_in_all: usual.calls_in_all.map(|most| most.max(typed.max_calls.unwrap_or(0).into())),
        wall_time: typed.wall.or(usual.wall_time),
        stream_time: typed.stream_time.or(usual.stream_time),
        tokens_in: typed.tokens_in.or(usual.tokens_in),
        tokens_out: typed.tokens_out.or(usual.tokens_out),
        fuel: typed.fuel_in_all.or(usual.fuel),
    }
}
