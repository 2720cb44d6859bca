//! `fumehood add`: gets a component, shows it, and adds it to the configuration and the lock.
//!
//! It writes the store, then the lock, then the configuration. Each is replaced as a whole. A process that
//! is killed in between leaves an approval of a name that the configuration does not have, which has no effect.

mod package;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::{Load, Lock, Namespace, StoredComponent};
use fumehood_config::package::PackageReference;
use fumehood_registry::fetch::FetchError;
use fumehood_registry::policy::PolicyError;
use fumehood_registry::reference::{OciReference, Reference, ReferenceError};
use fumehood_registry::signature::{PublicKey, SignatureError};

use super::approve;
use crate::args::{self, Arguments};
use crate::config::Config;
use crate::config::amount::MAX_MEMORY_BYTES;
use crate::config::tool::fold_name;
use crate::configuration_file::ConfigurationChange;
use crate::configured::{self, ConfiguredComponent};
use crate::exit::{Exit, UnansweredError, UsageError};
use crate::grants::{Answer, Grants};
use crate::render::Origin;
use crate::trust::ConfigSource;
use crate::{host, published, question, render, source};

pub(crate) async fn run(arguments: &Arguments, add: &args::Add) -> Result<Exit> {
    if PackageReference::is_meant(&add.reference) {
        return package::run(arguments, add).await;
    }
    add_component(arguments, add).await
}

async fn add_component(arguments: &Arguments, add: &args::Add) -> Result<Exit> {
    let place = parse_place(add)?;
    let source = ConfigSource::from_arguments(arguments);
    let (text, config) = source.open_with_text()?;
    let name = choose_name(add, &place, &config)?;
    let mut change = ConfigurationChange::new(text, config.clone())?;
    match &place {
        Reference::File(file) => change.add_tool(name.as_str(), "component", &written_path(&config, file)?)?,
        reference => change.add_tool(name.as_str(), "reference", &reference.to_string())?,
    }
    if let Some(file) = &add.key {
        let key = read_key(file)?;
        change.trust_key(&name_in_registry(&place)?.name(), &String::from(key))?;
    }
    let may_ask = approve::can_ask(arguments) && !add.yes;
    let mut grants = Grants::typed(&add.powers, &add.limits);
    change.grant(name.as_str(), &grants)?;
    let changed = change.config()?;
    let stored = match &place {
        Reference::File(_) => None,
        reference => {
            let stored = published::get_typed(&changed, reference).await;
            Some(stored.map_err(|error| name_key_option(error, add))?)
        }
    };
    let mut lock = configured::open_lock(&changed)?;
    let host = host::builder_for(arguments, &changed)?.memory_ceiling(MAX_MEMORY_BYTES).build()?;
    let component = prepare(add, &changed, &lock, &name, stored.clone())?;
    let loaded = host::load(&host, &component.label, component.load).await?;
    let mut origin = Origin::File { file: component.label, component: loaded, approved_wishes: None };
    if let Some(wishes) = origin.wishes() {
        if may_ask && !add.grant_wishes {
            wishes.show()?;
        }
        let default = if add.grant_wishes { Answer::All } else { Answer::None };
        let is_more = grants.decide(wishes.wanted(), default, may_ask, &changed.absolute_folder())?;
        change.grant(name.as_str(), &grants)?;
        if is_more {
            let component = prepare(add, &change.config()?, &lock, &name, stored)?;
            let loaded = host::reload(&host, &component.label, component.load).await?;
            origin = Origin::File { file: component.label, component: loaded, approved_wishes: None };
        }
    }
    let check = approve::approval_check(&host, &name).context("the component was loaded without a comparison")?;
    host.shutdown(Duration::ZERO).await;
    if !arguments.json {
        render::approval(name.as_str(), &origin, &check, add.full)?;
    }
    let is_wanted = add.yes || (approve::can_ask(arguments) && question::ask(&format!("Add and approve `{name}`?"))?);
    if arguments.json {
        let status = if is_wanted { "approved" } else { "needs_approval" };
        render::json(&approve::approval_line(name.as_str(), status, &origin, &check))?;
    }
    grants.report(name.as_str())?;
    if !is_wanted {
        if approve::can_ask(arguments) {
            return Ok(Exit::Refused);
        }
        return Err(UnansweredError("nothing was added".to_owned()).into());
    }
    lock.approve_with_note(name.clone(), check.parts().clone(), approve::approval_note(None));
    lock.save()?;
    change.write()?;
    let origin = changed.origin.display();
    render::note(&format!("added `{name}` to {origin}, and approved it in {}", lock.path().display()));
    Ok(Exit::Ok)
}

/// Prepares the component that the changed configuration has under its name.
fn prepare(
    add: &args::Add,
    changed: &Config,
    lock: &Lock,
    name: &Namespace,
    stored: Option<StoredComponent>,
) -> Result<ConfiguredComponent> {
    let section = changed.tools.get(name.as_str());
    let section = section
        .ok_or_else(|| UsageError(format!("cannot add `{name}` to the configuration; add the lines by hand")))?;
    let component = configured::from_section(changed, lock, name.as_str(), section, stored)?;
    if add.allow_slow_compile {
        return Ok(ConfiguredComponent { load: component.load.allow_slow_compile(), ..component });
    }
    Ok(component)
}

fn parse_place(add: &args::Add) -> Result<Reference> {
    if add.program.is_some() {
        return Err(UsageError("--program is for packages of npm and PyPI; leave it out".to_owned()).into());
    }
    let typed = add.reference.as_str();
    let place: Reference = typed.parse().map_err(|error: ReferenceError| UsageError(error.to_string()))?;
    match &place {
        // A registry is never meant without saying so.
        Reference::File(file) if !file.exists() => {
            let message = format!(
                "no such file {}; expected oci://HOST/NAME:TAG, https://…#sha256=DIGEST, or a `.wasm` file",
                file.display()
            );
            Err(UsageError(message).into())
        }
        _ => Ok(place),
    }
}

/// Returns the name that was typed, or else that of the component, if the configuration does not have it yet.
fn choose_name(add: &args::Add, place: &Reference, config: &Config) -> Result<Namespace> {
    let name = match (&add.name, place) {
        (Some(name), _) => Namespace::parse(name).map_err(|error| UsageError(error.to_string()))?,
        (None, Reference::File(file)) => Load::path(file).name()?,
        (None, reference) => Namespace::parse(&fumehood::default_component_name(reference))
            .map_err(|error| UsageError(format!("{reference}: {error}; name it with `--name NAME`")))?,
    };
    require_free_name(config, &name)?;
    Ok(name)
}

/// Refuses a name that the configuration has already.
fn require_free_name(config: &Config, name: &Namespace) -> Result<()> {
    let names = config.tools.keys().chain(config.mcp.servers.keys());
    if let Some(taken) = names.into_iter().find(|taken| fold_name(taken) == fold_name(name.as_str())) {
        let origin = config.origin.display();
        let message = format!(
            "{origin} already has `{taken}`; choose another name with `--name NAME`, or check for a newer version \
             with `fumehood update {taken}`"
        );
        return Err(UsageError(message).into());
    }
    Ok(())
}

/// Returns the path of a component as the configuration names it: relative to its folder where that is possible.
fn written_path(config: &Config, file: &Path) -> Result<String> {
    let unusable =
        || UsageError(format!("the path {} cannot be written in a configuration; move the file", file.display()));
    let absolute = std::path::absolute(file).map_err(|_| unusable())?;
    let written = match (file.is_relative(), absolute.strip_prefix(config.absolute_folder())) {
        (true, Ok(below)) => below.to_owned(),
        _ => absolute,
    };
    Ok(written.to_str().ok_or_else(unusable)?.to_owned())
}

/// Adds to the error about a key that is not trusted that one can be trusted while adding.
fn name_key_option(error: anyhow::Error, add: &args::Add) -> anyhow::Error {
    use SignatureError::{ForeignKey, NoTrustedKey};
    match error.downcast_ref() {
        Some(FetchError::Policy(PolicyError::Signature(NoTrustedKey { .. } | ForeignKey { .. })))
            if add.key.is_none() =>
        {
            let message = format!("cannot add {}; add its publisher's public key with `--key FILE`", add.reference);
            error.context(message)
        }
        _ => error,
    }
}

fn read_key(file: &Path) -> Result<PublicKey> {
    let text = source::read_file(file, "`--key`")?;
    Ok(text.parse().map_err(|error| UsageError(format!("`--key`: {}: {error}", file.display())))?)
}

fn name_in_registry(place: &Reference) -> Result<&OciReference> {
    match place {
        Reference::Oci(oci) => Ok(oci),
        other => {
            let message = format!("`--key` works only for components of registries, but got {other}; leave it out");
            Err(UsageError(message).into())
        }
    }
}
