//! What only shows when several keys are seen together, or against the host.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fumehood::model::ModelSpec;
use fumehood::{Limits, Namespace};

use super::amount::Count;
use super::fault::Broken;
use super::file::Config;
use super::limits::{LimitsSection, MEMORY_CEILING};
use super::powers::PowerFault;
use super::secret::ValueSource;
use super::server;
use super::text::TextSource;
use super::tool::{ToolSection, folded};

/// Everything that is wrong with a configuration whose values are each well-formed.
pub(crate) fn check(config: &Config) -> Vec<Broken> {
    let mut broken = Vec::new();
    limits(&mut broken, &["limits"], &config.limits, config.limits.over(Limits::default()));
    if let Some(Count(count)) = config.http_in_flight
        && (count == 0 || u32::try_from(count).is_err())
    {
        let message = format!("{count} requests at one time cannot be kept; give 1 to {}, or leave it out", u32::MAX);
        add(&mut broken, &["http_in_flight"], message);
    }
    tools(&mut broken, config);
    same_names(&mut broken, config);
    server::check(&mut broken, config);
    skills(&mut broken, config);
    prompts(&mut broken, config);
    serve(&mut broken, config);
    if let Some(Err(error)) = config.model.name.as_deref().map(ModelSpec::parse) {
        add(&mut broken, &["model", "name"], error.to_string());
    }
    broken
}

fn add(broken: &mut Vec<Broken>, path: &[&str], message: String) {
    broken.push((path.iter().map(|step| (*step).to_owned()).collect(), message));
}

fn limits(broken: &mut Vec<Broken>, path: &[&str], section: &LimitsSection, limits: Limits) {
    // An error of [limits] is told there, not once more for each tool.
    if *section != LimitsSection::default()
        && let Err(error) = limits.check(MEMORY_CEILING)
    {
        add(broken, path, error.to_string());
    }
}

fn tools(broken: &mut Vec<Broken>, config: &Config) {
    let usual = config.limits.over(Limits::default());
    for (name, tool) in &config.tools {
        if let Err(error) = Namespace::parse(name) {
            add(broken, &["tools", name], format!("[tools.{name}]: {error}"));
        }
        limits(broken, &["tools", name, "limits"], &tool.limits, tool.limits.over(usual));
        for PowerFault { key, entry, message } in faults_of(config, tool) {
            let mut path = vec!["tools", name.as_str(), key];
            path.extend(entry.as_deref());
            add(broken, &path, message);
        }
    }
}

fn same_names(broken: &mut Vec<Broken>, config: &Config) {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for name in config.tools.keys() {
        if let Some(first) = seen.insert(folded(name), name) {
            let message =
                format!("`{first}` and `{name}` are one name, because `-` and `_` are taken for one; rename one");
            add(broken, &["tools", name], message);
        }
    }
}

/// What cannot be granted. Where secrets come from is not looked at: that may be another machine's.
fn faults_of(config: &Config, tool: &ToolSection) -> Vec<PowerFault> {
    let any = |_: &ValueSource| Ok("any value".to_owned());
    tool.powers().grant(config.folder(), &any).err().unwrap_or_default()
}

fn skills(broken: &mut Vec<Broken>, config: &Config) {
    for (name, skill) in &config.skills {
        for entry in skill.knowledge.iter().filter(|entry| !config.knowledge.contains_key(*entry)) {
            let known = listed(config.knowledge.keys());
            let message =
                format!("the skill `{name}` names the knowledge `{entry}`, which is not in [knowledge]; {known}");
            add(broken, &["skills", name, "knowledge"], message);
        }
    }
    for (name, channel) in &config.channels {
        for skill in channel.skills.iter().filter(|skill| !config.skills.contains_key(*skill)) {
            let known = listed(config.skills.keys());
            let message = format!("the channel `{name}` names the skill `{skill}`, which is not in [skills]; {known}");
            add(broken, &["channels", name, "skills"], message);
        }
    }
    let agent = &config.agent;
    if let Some(skill) = agent.skill.as_ref().filter(|skill| !config.skills.contains_key(*skill)) {
        let message = format!("the skill `{skill}` is not in [skills]; {}", listed(config.skills.keys()));
        add(broken, &["agent", "skill"], message);
    }
    if let Some(channel) = agent.channel.as_ref().filter(|channel| !config.channels.contains_key(*channel)) {
        let message = format!("the channel `{channel}` is not in [channels]; {}", listed(config.channels.keys()));
        add(broken, &["agent", "channel"], message);
    }
}

fn prompts(broken: &mut Vec<Broken>, config: &Config) {
    for (name, prompt) in &config.prompts {
        for entry in prompt.knowledge.iter().filter(|entry| !config.knowledge.contains_key(*entry)) {
            let known = listed(config.knowledge.keys());
            let message =
                format!("the prompt `{name}` names the knowledge `{entry}`, which is not in [knowledge]; {known}");
            add(broken, &["prompts", name, "knowledge"], message);
        }
        let TextSource::Here(text) = &prompt.text else { continue };
        for argument in prompt.arguments.keys().filter(|argument| !text.contains(&format!("{{{argument}}}"))) {
            let message =
                format!("the text of the prompt `{name}` has no {{{argument}}} in it; leave `{argument}` out");
            add(broken, &["prompts", name, "arguments", argument], message);
        }
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() { "it has none".to_owned() } else { format!("it has: {}", names.join(", ")) }
}

fn serve(broken: &mut Vec<Broken>, config: &Config) {
    let serve = &config.serve;
    if serve.token.is_some() && serve.no_token {
        add(
            broken,
            &["serve", "no_token"],
            "there is a `token`, and `no_token` is true; leave one of them out".to_owned(),
        );
    }
    let Some(written) = &serve.http else { return };
    match written.parse::<SocketAddr>() {
        Err(_) => add(
            broken,
            &["serve", "http"],
            format!("`{written}` is not an address; write an IP address and a port, such as \"127.0.0.1:8080\""),
        ),
        Ok(address) if serve.no_token && !address.ip().is_loopback() => add(
            broken,
            &["serve", "no_token"],
            format!("{address} can be reached from other machines, so that a token is needed; set `token`"),
        ),
        Ok(_) => {}
    }
}
