//! `fumehood add npm:NAME` and `pypi:NAME`: installs the package of an MCP server, and adds the server to the configuration.

use anyhow::Result;
use fumehood::Namespace;
use fumehood::settings::{LimitsSection, Powers, WriteFolder};
use fumehood_config::package::PackageReference;
use toml::Value;

use super::require_free_name;
use crate::args::{self, Arguments};
use crate::commands::approve;
use crate::configuration_file::ConfigurationChange;
use crate::exit::{Exit, UnansweredError, UsageError};
use crate::packages::{InstalledPackage, PackageStore};
use crate::render;
use crate::trust::ConfigSource;

pub(super) async fn run(arguments: &Arguments, add: &args::Add) -> Result<Exit> {
    let package: PackageReference = add.reference.parse().map_err(|error| UsageError(format!("{error}")))?;
    if arguments.offline {
        return Err(UsageError("--offline: an installer needs the network; leave the option out".to_owned()).into());
    }
    if !add.yes && !approve::can_ask(arguments) {
        return Err(UnansweredError("nothing was added".to_owned()).into());
    }
    let grants = grants(add)?;
    let (text, config) = ConfigSource::from_arguments(arguments).open_with_text()?;
    let name = add.name.as_deref().unwrap_or(package.short_name());
    let name = Namespace::parse(name)
        .map_err(|error| UsageError(format!("{package}: {error}; name it with `--name NAME`")))?;
    require_free_name(&config, &name)?;
    let installed = PackageStore::of_user()?.install(&package)?;
    report(&installed);
    let program = match &add.program {
        Some(program) => program,
        None => installed.default_program()?,
    };
    installed.program(program)?;
    let mut command = vec![Value::from(program)];
    command.extend(add.powers.args.iter().map(|word| Value::from(word.as_str())));
    let mut settings =
        vec![("package", Value::from(installed.package.to_string())), ("command", Value::Array(command))];
    settings.extend(grants);
    let mut change = ConfigurationChange::new(text, config.clone())?;
    change.add_server(name.as_str(), &settings)?;
    change.config()?;
    change.write()?;
    render::note(&format!("added `{name}` to {}", config.origin.display()));
    let review =
        args::Approve { names: vec![name.to_string()], yes: add.yes, full: add.full, ..args::Approve::default() };
    approve::run(arguments, &review).await
}

/// Returns the settings of the grants that were typed.
///
/// # Errors
/// If one is not for programs.
fn grants(add: &args::Add) -> Result<Vec<(&'static str, Value)>, UsageError> {
    let Powers { read, write, http, private_addresses, env, args, .. } = add.powers.clone();
    let known = Powers {
        read: read.clone(),
        write: write.clone(),
        http: http.clone(),
        private_addresses: private_addresses.clone(),
        env: env.clone(),
        args,
        ..Powers::default()
    };
    if known != add.powers || add.limits != LimitsSection::default() || add.key.is_some() || add.grant_wishes {
        let message = "a package can have --allow-read, --allow-write, --allow-http, --allow-private, --env and --arg; \
                       set its `limits` in the configuration";
        return Err(UsageError(message.to_owned()));
    }
    let writable = write.into_iter().map(|folder| match folder {
        WriteFolder::Text(path) => Ok(path),
        WriteFolder::Table(_) => Err(UsageError("--allow-write: a program has no quota; give a folder".to_owned())),
    });
    let mut grants = Vec::new();
    let lists = [
        ("read", read),
        ("write", writable.collect::<Result<_, _>>()?),
        ("http", http),
        ("private_addresses", private_addresses),
    ];
    for (key, values) in lists {
        if !values.is_empty() {
            grants.push((key, Value::Array(values.into_iter().map(Value::String).collect())));
        }
    }
    if !env.is_empty() {
        grants.push(("env", Value::Table(env.into_iter().map(|(name, value)| (name, Value::String(value))).collect())));
    }
    Ok(grants)
}

/// Says what was installed.
fn report(installed: &InstalledPackage) {
    let contents = &installed.contents;
    let others = contents.packages.len().saturating_sub(1);
    render::note(&format!("installed {} with {others} other packages", installed.package));
    if !contents.skipped_scripts.is_empty() {
        render::warning(&format!(
            "install scripts were not run of: {}; a package that needs its script does not work",
            contents.skipped_scripts.join(", ")
        ));
    }
}
