//! Checks of a configuration that involve several keys, or the limits of the host.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fumehood::hooks::ToolPatterns;
use fumehood::model::ModelSpec;
use fumehood::telemetry::parse_endpoint;
use fumehood::{Limits, Namespace};
use fumehood_config::agent::DriverName;
use fumehood_config::amount::{Count, MAX_MEMORY_BYTES};
use fumehood_config::command::CommandSection;
use fumehood_config::fault::KeyFault;
use fumehood_config::file::Config;
use fumehood_config::json::SettingError;
use fumehood_config::limits::LimitsSection;
use fumehood_config::mcp::DashboardSetting;
use fumehood_config::powers::PowerFault;
use fumehood_config::secret::ValueSource;
use fumehood_config::text::TextSource;
use fumehood_config::tool::{ToolSection, fold_name};
use fumehood_registry::signature::PublicKey;

use super::{hooks, oauth, registry, server, tenant};

/// Returns everything that is wrong with a configuration whose values are each well-formed.
pub(crate) fn check(config: &Config) -> Vec<KeyFault> {
    let mut faults = Vec::new();
    check_limits(&mut faults, &["limits"], &config.limits, config.limits.over(Limits::default()));
    if let Some(Count(count)) = config.http_in_flight
        && (count == 0 || u32::try_from(count).is_err())
    {
        let message = format!("{count} is out of range; expected 1 to {}", u32::MAX);
        add(&mut faults, &["http_in_flight"], message);
    }
    check_tools(&mut faults, config);
    check_unique_names(&mut faults, config);
    server::check(&mut faults, config);
    registry::check(&mut faults, config);
    check_approval(&mut faults, config);
    check_skills(&mut faults, config);
    check_decisions(&mut faults, config);
    check_prompts(&mut faults, config);
    check_serve(&mut faults, config);
    check_jobs(&mut faults, config);
    tenant::check(&mut faults, config);
    oauth::check(&mut faults, config);
    hooks::check(&mut faults, config);
    if let Some(Err(error)) = config.model.name.as_deref().map(ModelSpec::parse) {
        add(&mut faults, &["model", "name"], error.to_string());
    }
    for (name, price) in config.model.price.iter().flat_map(|price| price.faults()) {
        add(&mut faults, &["model", "price", name], format!("invalid price {price}; expected a number of at least 0"));
    }
    check_telemetry(&mut faults, config);
    #[cfg(feature = "postgres")]
    for (path, message) in super::storage::faults(config) {
        add(&mut faults, path, message);
    }
    #[cfg(feature = "cell")]
    for (path, message) in config.cell.iter().flat_map(super::cell::faults) {
        add(&mut faults, &[&["cell"], path.as_slice()].concat(), message);
    }
    faults
}

fn add(faults: &mut Vec<KeyFault>, path: &[&str], message: String) {
    faults.push((path.iter().map(|step| (*step).to_owned()).collect(), message));
}

fn check_limits(faults: &mut Vec<KeyFault>, path: &[&str], section: &LimitsSection, limits: Limits) {
    // An error of [limits] is reported there, and not again for each tool.
    if *section != LimitsSection::default()
        && let Err(error) = limits.check(MAX_MEMORY_BYTES)
    {
        add(faults, path, error.to_string());
    }
}

fn check_tools(faults: &mut Vec<KeyFault>, config: &Config) {
    for (name, tool) in &config.tools {
        let defaults = super::default_limits(config, name);
        if let Err(error) = Namespace::parse(name) {
            add(faults, &["tools", name], format!("[tools.{name}]: {error}"));
        }
        check_limits(faults, &["tools", name, "limits"], &tool.limits, tool.limits.over(defaults));
        for PowerFault { key, entry, message } in power_faults(config, tool) {
            let mut path = vec!["tools", name.as_str(), key];
            path.extend(entry.as_deref());
            add(faults, &path, message);
        }
        if let Some(Err(SettingError { setting, message })) = tool.command.as_ref().map(CommandSection::template) {
            add(faults, &["tools", name, "command", &setting], message);
        }
    }
}

fn check_unique_names(faults: &mut Vec<KeyFault>, config: &Config) {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for name in config.tools.keys() {
        if let Some(first) = seen.insert(fold_name(name), name) {
            let message = format!("`{first}` and `{name}` conflict, because `-` and `_` count as equal; rename one");
            add(faults, &["tools", name], message);
        }
    }
}

/// Returns the powers that cannot be granted. Sources of secrets are not read: they may be those of another machine.
fn power_faults(config: &Config, tool: &ToolSection) -> Vec<PowerFault> {
    let placeholder = |_: &ValueSource| Ok("any value".to_owned());
    tool.powers.grant(config.folder(), &placeholder).err().unwrap_or_default()
}

fn check_skills(faults: &mut Vec<KeyFault>, config: &Config) {
    for (name, skill) in &config.skills {
        for entry in skill.knowledge.iter().filter(|entry| !config.knowledge.contains_key(*entry)) {
            let known = list_names(config.knowledge.keys());
            let message =
                format!("the skill `{name}` names the knowledge `{entry}`, which is not in [knowledge]; {known}");
            add(faults, &["skills", name, "knowledge"], message);
        }
    }
    check_implementations(faults, config);
    for (name, channel) in &config.channels {
        for skill in channel.skills.iter().filter(|skill| !config.skills.contains_key(*skill)) {
            let known = list_names(config.skills.keys());
            let message = format!("the channel `{name}` names the skill `{skill}`, which is not in [skills]; {known}");
            add(faults, &["channels", name, "skills"], message);
        }
    }
    let agent = &config.agent;
    if let Some(skill) = agent.skill.as_ref().filter(|skill| !config.skills.contains_key(*skill)) {
        let message = format!("the skill `{skill}` is not in [skills]; {}", list_names(config.skills.keys()));
        add(faults, &["agent", "skill"], message);
    }
    if let Some(channel) = agent.channel.as_ref().filter(|channel| !config.channels.contains_key(*channel)) {
        let message = format!("the channel `{channel}` is not in [channels]; {}", list_names(config.channels.keys()));
        add(faults, &["agent", "channel"], message);
    }
}

fn check_implementations(faults: &mut Vec<KeyFault>, config: &Config) {
    for (name, skill) in &config.skills {
        let Some(by) = &skill.implemented_by else { continue };
        let wrong = match (&by.tool, &by.program) {
            (Some(_), Some(_)) => Some("it has both a `tool` and a `program`; leave one of them out"),
            (None, None) => Some("it has neither a `tool` nor a `program`; add one of them"),
            (Some(_), None) if !by.tools.is_empty() => {
                Some("`tools` works only with a `program`, but it has a `tool`; leave `tools` out")
            }
            _ => None,
        };
        if let Some(wrong) = wrong {
            let path = ["skills", name, "implemented_by"];
            add(faults, &path, format!("the implementation of the skill `{name}` cannot be used: {wrong}"));
        }
        if !(skill.tools.is_empty() && skill.knowledge.is_empty() && skill.instructions.is_none()) {
            let message = format!(
                "the skill `{name}` has `implemented_by`, so it cannot have `tools`, `knowledge` or `instructions`; \
                 leave them out. List the tools that a program may call in `implemented_by`"
            );
            add(faults, &["skills", name], message);
        }
    }
}

fn check_decisions(faults: &mut Vec<KeyFault>, config: &Config) {
    let agent = &config.agent;
    let has_other_driver = agent.driver.is_some_and(|driver| driver != DriverName::Native);
    match agent.tool_choice.as_deref() {
        Some(choice) if choice.trim().is_empty() => {
            let message =
                "`tool_choice` is empty; expected \"auto\", \"required\", \"none\", or the full name of a tool";
            add(faults, &["agent", "tool_choice"], message.to_owned());
        }
        Some(choice) if choice != "auto" && has_other_driver => {
            let message = "`tool_choice` works only with the driver \"native\"; leave it out, or change `driver`";
            add(faults, &["agent", "tool_choice"], message.to_owned());
        }
        _ => {}
    }
    if agent.final_model.as_ref().is_some_and(|model| model.trim().is_empty()) {
        let message = "`final_model` is empty; expected the name of a model";
        add(faults, &["agent", "final_model"], message.to_owned());
    }
}

fn check_prompts(faults: &mut Vec<KeyFault>, config: &Config) {
    for (name, prompt) in &config.prompts {
        for entry in prompt.knowledge.iter().filter(|entry| !config.knowledge.contains_key(*entry)) {
            let known = list_names(config.knowledge.keys());
            let message =
                format!("the prompt `{name}` names the knowledge `{entry}`, which is not in [knowledge]; {known}");
            add(faults, &["prompts", name, "knowledge"], message);
        }
        let TextSource::Here(text) = &prompt.text else { continue };
        for argument in prompt.arguments.keys().filter(|argument| !text.contains(&format!("{{{argument}}}"))) {
            let message = format!(
                "the text of the prompt `{name}` does not contain {{{argument}}}; remove the argument `{argument}`"
            );
            add(faults, &["prompts", name, "arguments", argument], message);
        }
    }
}

fn list_names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() { "it has none".to_owned() } else { format!("it has: {}", names.join(", ")) }
}

fn check_serve(faults: &mut Vec<KeyFault>, config: &Config) {
    let serve = &config.serve;
    if serve.token.is_some() && serve.no_token {
        add(
            faults,
            &["serve", "no_token"],
            "`token` conflicts with `no_token = true`; leave one of them out".to_owned(),
        );
    }
    if let Some(Err(message)) = serve.dashboard.as_ref().map(DashboardSetting::address) {
        add(faults, &["serve", "dashboard"], message);
    }
    let Some(written) = &serve.http else { return };
    match written.parse::<SocketAddr>() {
        Err(_) => add(
            faults,
            &["serve", "http"],
            format!("invalid address `{written}`; expected an IP address and a port, such as \"127.0.0.1:8080\""),
        ),
        Ok(address) if serve.no_token && !address.ip().is_loopback() => add(
            faults,
            &["serve", "no_token"],
            format!("{address} is reachable from other machines, which requires a token; set `token`"),
        ),
        Ok(_) => {}
    }
}

fn check_approval(faults: &mut Vec<KeyFault>, config: &Config) {
    for (index, key) in config.approval.keys.iter().enumerate() {
        if let Err(error) = key.parse::<PublicKey>() {
            add(faults, &["approval", "keys", &index.to_string()], error.to_string());
        }
    }
}

fn check_jobs(faults: &mut Vec<KeyFault>, config: &Config) {
    let jobs = &config.jobs;
    if let Err(error) = ToolPatterns::new(&jobs.tools) {
        add(faults, &["jobs", "tools"], error.to_string());
    }
    if jobs.keep.is_some_and(|time| time.0.is_zero()) {
        let message = "results would be removed at once; expected more than 0, or leave it out for 1h";
        add(faults, &["jobs", "keep"], message.to_owned());
    }
    if jobs.per_client == Some(0) {
        let message = "no client could have a job; to turn off jobs, set `off = true`";
        add(faults, &["jobs", "per_client"], message.to_owned());
    }
}

fn check_telemetry(faults: &mut Vec<KeyFault>, config: &Config) {
    let telemetry = &config.telemetry;
    if let Some(Err(error)) = telemetry.endpoint.as_deref().map(|url| parse_endpoint("endpoint", url)) {
        add(faults, &["telemetry", "endpoint"], error.to_string());
    }
    if let Some(sampling) = telemetry.sampling.filter(|share| !(0.0..=1.0).contains(share)) {
        let message = format!("invalid fraction {sampling}; expected a number from 0 to 1");
        add(faults, &["telemetry", "sampling"], message);
    }
}
