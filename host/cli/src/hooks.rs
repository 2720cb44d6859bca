//! The hooks of a configuration, ready to decide on calls.

use std::sync::Arc;

use anyhow::Result;
use fumehood::Host;
use fumehood::boxed::BoxFuture;
use fumehood::hooks::{ComponentHook, HookFunction, RateLimit};
use fumehood::policy::{Answer, Approver, CallQuestion, Policies, Policy, Question};

use crate::app::App;
use crate::config::Config;
use crate::config::hooks::{ComponentHookSection, HookFunctionName, redaction, tools_of};
use crate::configured::{ConfiguredComponent, Version};
use crate::exit::UsageError;
use crate::question;
use crate::render::quotation::{Quotation, one_line};
use crate::render::{self, STRONG, styled};

/// Returns the hooks of a configuration whose components are loaded into this host, in the order in which they run.
///
/// # Errors
/// If a component is no hook, or is not approved.
pub(crate) fn from_config(config: &Config, host: &Host) -> Result<Policies> {
    let mut hooks: Vec<Arc<dyn Policy>> = Vec::new();
    for (index, limit) in config.hooks.rate_limit.iter().enumerate() {
        let name = format!("rate_limit {}", index + 1);
        let actor = limit.actor.as_deref().map(Arc::from);
        hooks.push(Arc::new(
            RateLimit::per_minute(name, tools_of(limit.tools.as_deref())?, limit.per_minute).actor(actor),
        ));
    }
    for section in &config.hooks.component {
        hooks.push(Arc::new(component_hook(config, section, host)?));
    }
    for (index, section) in config.hooks.redact.iter().enumerate() {
        // A pattern that is not valid was reported when the configuration was read.
        hooks.push(Arc::new(redaction(section)?.named(format!("redact {}", index + 1))));
    }
    Ok(hooks.into_iter().collect())
}

fn component_hook(config: &Config, section: &ComponentHookSection, host: &Host) -> Result<ComponentHook> {
    let name = &section.name;
    let hook = host.hook(name);
    let hook = hook.map_err(|error| {
        let place = config.place_of(&["hooks", "component"]);
        UsageError(format!("{place}: [[hooks.component]] `{name}`: {error}"))
    })?;
    let hook = hook.tools(tools_of(section.tools.as_deref())?);
    let function = |name: &HookFunctionName| match name {
        HookFunctionName::Authorize => HookFunction::Authorize,
        HookFunctionName::Before => HookFunction::Before,
        HookFunctionName::After => HookFunction::After,
    };
    Ok(match &section.on {
        Some(functions) => hook.functions(functions.iter().map(function)),
        None => hook,
    })
}

/// Returns the components of the hooks, for a command that loads no others.
///
/// # Errors
/// If something that one needs, such as the value of a secret, is not available.
pub(crate) async fn components(app: &App<'_>) -> Result<Vec<ConfiguredComponent>> {
    let mut components = Vec::new();
    for hook in &app.config.hooks.component {
        components.extend(app.component(&hook.name, Version::Pinned).await?);
    }
    Ok(components)
}

/// An [`Approver`] that asks the person at the terminal.
pub(crate) struct TerminalHookApprover;

impl TerminalHookApprover {
    /// Creates an approver; `None` if there is no terminal to ask at.
    pub(crate) fn from_terminal() -> Option<Arc<dyn Approver>> {
        question::can_ask().then(|| Arc::new(Self) as _)
    }
}

impl Approver for TerminalHookApprover {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let is_allowed = match question {
                Question::Call(question) => question::ask_with(move || show(question)).await,
                Question::Budget(_) => false,
            };
            if is_allowed { Answer::Allow } else { Answer::no() }
        })
    }
}

/// Shows a hook's question, and the call in full, because an approval allows all of it.
fn show(question: &CallQuestion) -> Result<()> {
    let mut from = question.from.clone();
    if let Some(first) = from.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    render::note(&format!("{} {from} asks about this call", styled(STRONG, "?")));
    let mut quotation = Quotation::for_stderr();
    quotation.write_block(2, &question.question)?;
    let proposed = &question.proposed;
    quotation.write_block(2, &format!("{} {}", one_line(&proposed.tool), proposed.arguments))
}
