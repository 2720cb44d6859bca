//! Tools that the model may reach: by skill, channel and option.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use fumehood::agent::allowlist::{self, Allowlists, Channel, Implementation, Skill};

use super::settings::output_schema;
use crate::args::run::AgentArguments;
use crate::config::Config;
use crate::config::skill::{ChannelSection, SkillSection};
use crate::exit::UsageError;
use crate::source::read_text;

/// Name of the list of `--allow` where a skill is in use and no channel is. No channel of the configuration has such a
/// name.
const ALLOW: &str = "--allow";

/// Returns the skill in use, if any.
///
/// # Errors
/// If the configuration has no skill of that name.
pub(crate) fn skill<'a>(config: &'a Config, typed: &'a AgentArguments) -> Result<Option<&'a str>> {
    find_name("skill", "skills", typed.skill.as_ref().or(config.agent.skill.as_ref()), &config.skills)
}

/// Returns the channel in use, if any.
///
/// # Errors
/// If the configuration has no channel of that name, or the skill in use cannot be used there.
pub(crate) fn channel<'a>(
    config: &'a Config,
    typed: &'a AgentArguments,
    skill: Option<&str>,
) -> Result<Option<&'a str>> {
    let selected = typed.channel.as_ref().or(config.agent.channel.as_ref());
    let Some(name) = find_name("channel", "channels", selected, &config.channels)? else { return Ok(None) };
    let skills = config.channels.get(name).map(|channel| channel.skills.as_slice()).unwrap_or_default();
    match skill.filter(|skill| !skills.is_empty() && !skills.iter().any(|known| known == skill)) {
        Some(skill) => {
            let known = skills.join(", ");
            let message = format!("the skill `{skill}` cannot be used in the channel `{name}`, which has: {known}");
            Err(UsageError(message).into())
        }
        None => Ok(Some(name)),
    }
}

fn find_name<'a, T>(
    what: &str,
    section: &str,
    name: Option<&'a String>,
    all: &BTreeMap<String, T>,
) -> Result<Option<&'a str>> {
    let Some(name) = name.filter(|name| !all.contains_key(*name)) else { return Ok(name.map(String::as_str)) };
    let known: Vec<&str> = all.keys().map(String::as_str).collect();
    let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has: {}", known.join(", ")) };
    let message = format!("unknown {what} `{name}`; [{section}] of fumehood.toml does not have it; {known}");
    Err(UsageError(message).into())
}

/// Builds the allowlists of a run.
///
/// The operator named the components, so the model may call all of their tools, unless `--allow` names some.
///
/// # Errors
/// If the program or the schema of the skill in use cannot be read.
pub(crate) fn allowlists(
    config: &Config,
    typed: &AgentArguments,
    skill: Option<&str>,
    channel: Option<&str>,
) -> Result<Allowlists> {
    let auto_tools: BTreeSet<String> = config.agent.auto_tools.iter().cloned().collect();
    let allowed: Option<BTreeSet<String>> =
        (!typed.allow.is_empty()).then(|| typed.allow.iter().chain(&auto_tools).cloned().collect());
    let mut channels = BTreeMap::new();
    if let Some((name, section)) = channel.and_then(|name| config.channels.get_key_value(name)) {
        let mut tools = channel_tools(config, section);
        tools.retain(|tool| allowed.as_ref().is_none_or(|allowed| allowed.contains(tool)));
        let replay_freshness = section.replay.map(|age| age.0);
        channels.insert(name.clone(), Channel { tools, replay_freshness });
    } else if let Some(allowed) = &allowed {
        channels.insert(ALLOW.to_owned(), Channel::new(allowed.clone()));
    }
    let default = allowed.map_or(allowlist::DefaultAllowlist::Everything, allowlist::DefaultAllowlist::Only);
    let mut skills: BTreeMap<String, Skill> =
        config.skills.iter().map(|(name, section)| (name.clone(), skill_allowlist(section))).collect();
    if let Some((name, section)) = skill.and_then(|name| config.skills.get_key_value(name)) {
        skills.insert(name.clone(), skill_in_use(config, name, section)?);
    }
    Ok(Allowlists { default, skills, channels, auto_tools, key: None })
}

/// Selects the list of [`allowlists`] that is signed, if any: the channel, or the list of `--allow` where only a skill
/// is in use, so that it narrows the skill as well.
pub(crate) fn select_list<'a>(
    typed: &AgentArguments,
    skill: Option<&str>,
    channel: Option<&'a str>,
) -> Option<&'a str> {
    channel.or_else(|| (skill.is_some() && !typed.allow.is_empty()).then_some(ALLOW))
}

/// Returns the list of a skill that is not in use, whose files are not read.
fn skill_allowlist(section: &SkillSection) -> Skill {
    let mut skill = Skill::new();
    for tool in section.all_tools() {
        skill = skill.component_tool(tool);
    }
    for entry in &section.knowledge {
        skill = skill.knowledge(entry);
    }
    skill
}

/// Returns the skill in use, with its implementation and the schema of its result.
fn skill_in_use(config: &Config, name: &str, section: &SkillSection) -> Result<Skill> {
    let skill = match &section.implemented_by {
        None => skill_allowlist(section),
        Some(by) => Skill::new().implemented_by(match (&by.tool, &by.program) {
            (Some(tool), _) => Implementation::Tool(tool.clone()),
            (None, program) => {
                let code = program.as_ref().map(|source| read_text(config, source)).transpose()?;
                Implementation::program(code.unwrap_or_default(), by.tools.iter().cloned())
            }
        }),
    };
    let Some(file) = &section.output_schema else { return Ok(skill) };
    let schema = output_schema(&config.path(file), &format!("`output_schema` of [skills.{name}]"))?;
    Ok(skill.output_schema(schema))
}

/// Returns the tools of a channel, and those of its skills.
fn channel_tools(config: &Config, section: &ChannelSection) -> BTreeSet<String> {
    let skills = section.skills.iter().filter_map(|name| config.skills.get(name));
    let of_skills = skills.flat_map(|skill| skill.all_tools().chain(&skill.knowledge));
    section.tools.iter().chain(of_skills).cloned().collect()
}
