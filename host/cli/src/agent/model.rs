//! Selection of the model, by option, environment or configuration.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use fumehood::agent::agent::NoModel;
use fumehood::chat::Model;
use fumehood::model::{ModelSpec, Provider, ScriptedModel, Service, SetupError};

use super::settings;
use crate::args::run::ModelArguments;
use crate::config::Config;
use crate::exit::{ModelSetupError, UsageError};

/// Environment variable that may name a model.
const MODEL_VARIABLE: &str = "FUMEHOOD_MODEL";

/// Selects and sets up the model, unless nothing asks one: a tool or a program implements the skill in use, and there is
/// no judge.
///
/// # Errors
/// See [`from_arguments`].
pub(crate) fn for_skill(typed: &ModelArguments, config: &Config, skill: Option<&str>) -> Result<Arc<dyn Model>> {
    let section = skill.and_then(|name| config.skills.get(name));
    let is_implemented = section.is_some_and(|section| section.implemented_by.is_some());
    if is_implemented && config.guardrails.judge.is_none() {
        return Ok(Arc::new(NoModel));
    }
    from_arguments(typed, config)
}

/// Selects and sets up the model.
///
/// The address and the key of a configuration belong to the model that it names: where another provider was chosen, its
/// key must not go to that address.
///
/// # Errors
/// If no model is named, or it cannot be set up.
pub(crate) fn from_arguments(typed: &ModelArguments, config: &Config) -> Result<Arc<dyn Model>> {
    let configured = config.model.name.as_deref();
    if let Some(file) = &typed.script {
        return scripted(file);
    }
    let Some(name) = selected_name(typed, config) else {
        let message = format!(
            "no model is configured; use `--model PROVIDER:NAME`, such as `--model ollama:llama3.2`, or `--script \
             FILE`; or set {MODEL_VARIABLE}, or `name` in [model] of fumehood.toml"
        );
        return Err(UsageError(message).into());
    };
    match ModelSpec::parse(name.trim()).map_err(ModelSetupError::Name)? {
        ModelSpec::Scripted(file) => scripted(&file),
        spec @ ModelSpec::Provider { .. } => {
            let settings = settings::provider(config, !is_other_provider(&spec, configured), typed)?;
            let settings = match &typed.base_url {
                Some(url) => settings.base_url(url),
                None => settings,
            };
            let provider = Provider::new(&spec, settings).map_err(|source| {
                let hint = match source {
                    SetupError::NoUrl { .. } | SetupError::BadUrl { .. } => "; set its address with `--base-url URL`",
                    SetupError::NoKey { .. } => ": it needs a key",
                    _ => "",
                };
                ModelSetupError::Provider { model: spec.to_string(), hint, source }
            })?;
            Ok(Arc::new(provider))
        }
    }
}

/// Returns the name of the model that is selected; `None` if there is none, or a script answers in its place.
pub(crate) fn selected_name(typed: &ModelArguments, config: &Config) -> Option<String> {
    if typed.script.is_some() {
        return None;
    }
    let from_environment = || std::env::var(MODEL_VARIABLE).ok().filter(|name| !name.trim().is_empty());
    typed.model.clone().or_else(from_environment).or_else(|| config.model.name.clone())
}

/// Returns whether the configuration names a model of another provider.
fn is_other_provider(spec: &ModelSpec, configured: Option<&str>) -> bool {
    let configured = configured.and_then(|name| ModelSpec::parse(name.trim()).ok());
    configured.is_some_and(|configured| service_of(&configured) != service_of(spec))
}

fn service_of(spec: &ModelSpec) -> Option<Service> {
    match spec {
        ModelSpec::Provider { service, .. } => Some(*service),
        ModelSpec::Scripted(_) => None,
    }
}

fn scripted(file: &Path) -> Result<Arc<dyn Model>> {
    let failed = |source| ModelSetupError::Script { file: file.display().to_string(), source };
    Ok(Arc::new(ScriptedModel::open(file).map_err(failed)?))
}
