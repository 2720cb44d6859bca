//! What only shows when several keys are seen together, or against the host.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fumehood::model::ModelSpec;
use fumehood::{Limits, Namespace};

use super::amount::Count;
use super::file::Config;
use super::limits::{LimitsSection, MEMORY_CEILING};
use super::mcp::McpServerSection;
use super::powers::PowerFault;
use super::secret::ValueSource;
use super::tool::ToolSection;

/// A path of keys, and what is wrong there.
pub(crate) type Broken = (Vec<String>, String);

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
    servers(&mut broken, config);
    skills(&mut broken, config);
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

/// A host takes `-` and `_` for one, so that only one of two such names could be loaded.
fn folded(name: &str) -> String {
    name.replace('-', "_")
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

fn servers(broken: &mut Vec<Broken>, config: &Config) {
    for (name, server) in &config.mcp.servers {
        let path = ["mcp", "servers", name.as_str()];
        if let Err(error) = Namespace::parse(name) {
            add(broken, &path, format!("[mcp.servers.{name}]: {error}"));
        }
        if let Some(tool) = config.tools.keys().find(|tool| folded(tool) == folded(name)) {
            let same = if tool == name { String::new() } else { format!(" as `{name}`") };
            add(broken, &path, format!("`{tool}` is in [tools] and{same} in [mcp.servers]; rename one of them"));
        }
        if let Some(wrong) = wrong_server(server) {
            add(broken, &path, format!("the MCP server `{name}` {wrong}"));
        }
    }
}

fn wrong_server(server: &McpServerSection) -> Option<&'static str> {
    match (&server.command, &server.url) {
        (None, None) => Some("has neither `command` nor `url`; add command = [\"PROGRAM\", …] or url = \"https://…\""),
        (Some(_), Some(_)) => Some("has both `command` and `url`; leave one of them out"),
        (Some(command), _) if command.is_empty() => Some("has an empty `command`; write [\"PROGRAM\", …]"),
        (None, Some(_)) if !server.env.is_empty() || !server.secret_env.is_empty() || server.folder.is_some() => {
            Some("is reached by `url`, so that `env`, `secret_env` and `folder` have no use; leave them out")
        }
        (Some(_), None) if server.bearer.is_some() || !server.headers.is_empty() => {
            Some("is started by `command`, so that `bearer` and `headers` have no use; leave them out")
        }
        _ => None,
    }
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
