//! Components of registries for the command line: the source that a configuration describes, and getting from it.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, Result};
use fumehood::settings::{TextSource, signature_rule};
use fumehood::{RegistrySource, StoredComponent};
use fumehood_registry::client::Progress;
use fumehood_registry::fetch::{FetchError, NewerVersion};
use fumehood_registry::policy::{Pattern, Policy, Trust};
use fumehood_registry::reference::{OciReference, Reference};
use fumehood_registry::signature::PublicKey;
use fumehood_registry::store::Store;

use crate::args::Arguments;
use crate::config::Config;
use crate::config::registry::{RegistrySection, parse_reference};
use crate::exit::UsageError;
use crate::registry::{registry_client, transfer_bar};
use crate::trust::ConfigSource;
use crate::{render, source, user_folders};

/// Beginnings of references, which no path of a component has.
const SCHEMES: [&str; 3] = ["oci://", "https://", "http://"];

/// Returns the reference that was typed in place of a file; `None` if it is a path.
///
/// # Errors
/// If it is a malformed reference.
pub(crate) fn typed_reference(typed: &Path) -> Result<Option<Reference>> {
    match typed.to_str().filter(|_| is_reference(typed)) {
        Some(text) => Ok(Some(parse_reference(text).map_err(|error| UsageError(error.to_string()))?)),
        None => Ok(None),
    }
}

/// Returns whether this is a reference and no path.
pub(crate) fn is_reference(typed: &Path) -> bool {
    typed.to_str().is_some_and(|text| SCHEMES.iter().any(|scheme| text.starts_with(scheme)))
}

fn registry_error(error: &dyn Display) -> UsageError {
    UsageError(format!("[registry]: {error}"))
}

fn parse_pattern(text: &str) -> Result<Pattern, UsageError> {
    text.parse().map_err(|error: <Pattern as FromStr>::Err| registry_error(&error))
}

/// Returns the policy of a configuration.
///
/// # Errors
/// If a key or a digest cannot be read.
pub(crate) fn policy(config: &Config) -> Result<Policy> {
    let section = &config.registry;
    let mut policy =
        Policy::new().signatures(signature_rule(section.signatures)).trusted_keys(keys(config, &section.trusted_keys)?);
    for (names, trusted) in &section.trusted {
        policy = policy.trusted(parse_pattern(names)?, keys(config, trusted)?);
    }
    if let Some(allow) = &section.allow {
        policy = policy.allow(allow.iter().map(|text| parse_pattern(text)).collect::<Result<Vec<_>, _>>()?);
    }
    if let Some(bytes) = section.max_bytes {
        policy = policy.max_bytes(bytes.0 as u64);
    }
    if let Some(age) = section.min_age {
        policy = policy.min_age(age.0);
    }
    let revoked = section.revoked.iter().map(|digest| digest.parse().map_err(|error| registry_error(&error)));
    Ok(policy.revoked(revoked.collect::<Result<Vec<_>, UsageError>>()?))
}

/// Reads public keys of a configuration.
///
/// # Errors
/// If one cannot be read.
pub(crate) fn keys(config: &Config, sources: &[TextSource]) -> Result<Vec<PublicKey>> {
    let read = |key: &TextSource| {
        let text = source::read_text(config, key)?;
        Ok(text.parse().map_err(|error| UsageError(format!("[registry]: {error}")))?)
    };
    sources.iter().map(read).collect()
}

/// Checks that registries and other hosts may be asked.
///
/// # Errors
/// With `--offline`.
pub(crate) fn require_network(arguments: &Arguments) -> Result<()> {
    if arguments.offline {
        Err(UsageError("this needs the network; leave `--offline` out".to_owned()).into())
    } else {
        Ok(())
    }
}

/// Returns whether a configuration says anything about registries.
pub(crate) fn is_configured(config: &Config) -> bool {
    config.registry != RegistrySection::default()
}

/// Returns the settings of the way to registries of the configuration in use, for commands that use nothing else of it.
///
/// # Errors
/// If the network is forbidden, or the configuration has such settings and is not trusted, or cannot be read.
pub(crate) fn configured_settings(arguments: &Arguments) -> Result<RegistrySection> {
    require_network(arguments)?;
    Ok(settings(&ConfigSource::from_arguments(arguments).open_if(is_configured)?))
}

/// Returns the settings of a configuration for registries, with paths from the working folder.
pub(crate) fn settings(config: &Config) -> RegistrySection {
    let tls_roots = config.registry.tls_roots.iter().map(|file| config.path(file)).collect();
    RegistrySection { tls_roots, ..config.registry.clone() }
}

/// Returns the source of components that uses no network.
///
/// # Errors
/// If the store cannot be opened, or a key cannot be read.
pub(crate) fn stored_source(config: &Config) -> Result<RegistrySource> {
    Ok(RegistrySource::new(Store::open(user_folders::component_store()?)?, policy(config)?))
}

/// Returns the source of components, with a client unless the network is forbidden.
///
/// # Errors
/// Like [`stored_source`], or if the client cannot be set up.
pub(crate) fn source(config: &Config) -> Result<RegistrySource> {
    let source = stored_source(config)?;
    if config.offline {
        return Ok(source);
    }
    Ok(source.client(registry_client(&settings(config))?))
}

/// Returns a line about a higher version of a component: what to do to use it, or why it cannot be used.
pub(crate) async fn newer_version(source: &RegistrySource, name: &str, reference: &OciReference) -> Option<String> {
    match source.newer_version(reference).await {
        Ok(None) => None,
        Ok(Some(NewerVersion { reference, refused: None })) => Some(format!(
            "{reference}; to use it, write this reference in [tools.{name}], and run `fumehood approve {name}`"
        )),
        Ok(Some(NewerVersion { reference, refused: Some(reason) })) => {
            Some(format!("{reference}, which cannot be used: {reason}"))
        }
        Err(error) => Some(format!("unknown: {error}")),
    }
}

/// Gets a component, with a progress bar on a terminal. Warns if the policy accepts it without a signature.
///
/// # Errors
/// If it cannot be had, or the policy refuses it.
pub(crate) async fn get(source: &RegistrySource, reference: &Reference) -> Result<StoredComponent> {
    let bar = transfer_bar(&format!("getting {reference}"));
    let mut show = |progress: Progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.received);
    };
    let found = source.get(reference, &mut show).await;
    bar.finish_and_clear();
    let found = found.with_context(|| format!("cannot download {reference}"))?;
    warn_if_unverified(&found);
    Ok(found)
}

/// Gets the component of a reference on the command line: from the store if it is pinned and there.
///
/// # Errors
/// Like [`get`].
pub(crate) async fn get_typed(config: &Config, reference: &Reference) -> Result<StoredComponent> {
    get(&source(config)?, reference).await
}

/// Gets components whose references are pinned: from the store, verified again, or else from their registries.
///
/// # Errors
/// If one cannot be had.
pub(crate) async fn get_pinned(config: &Config, references: &[Reference]) -> Result<Vec<StoredComponent>> {
    if references.is_empty() {
        return Ok(Vec::new());
    }
    let stored = stored_source(config)?;
    let mut online = None;
    let mut components = Vec::with_capacity(references.len());
    for (reference, found) in references.iter().zip(stored.stored_all(references)) {
        let is_missing = matches!(found, Err(FetchError::NotStored(_) | FetchError::UrlNotStored(_)));
        if is_missing && !config.offline && is_pinned(reference) {
            let online = match &mut online {
                Some(online) => online,
                none => none.insert(source(config)?),
            };
            components.push(get(online, reference).await?);
            continue;
        }
        let found = found.with_context(|| if is_pinned(reference) { format!("cannot use {reference}") } else { format!(
                "the lock does not pin {reference}; `fumehood approve` downloads, shows and pins the current version"
            ) })?;
        warn_if_unverified(&found);
        components.push(found);
    }
    Ok(components)
}

/// Returns whether a reference says which bytes it means.
pub(crate) fn is_pinned(reference: &Reference) -> bool {
    !matches!(reference, Reference::Oci(oci) if oci.digest().is_none())
}

fn warn_if_unverified(component: &StoredComponent) {
    if let Some(Trust::Unverified(reason)) = &component.trust {
        render::warning(&format!("{reason}; used anyway, because [registry] has signatures = \"warn\""));
    }
}
