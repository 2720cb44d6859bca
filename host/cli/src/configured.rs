//! The components of a configuration, ready to be loaded.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use fumehood::approval::Approval;
use fumehood::settings::read_value;
use fumehood::{Digest, Isolation, Limits, Load, Lock, Namespace, StoredComponent, WitDocs};
use fumehood_registry::reference::{OciReference, Reference};
use fumehood_registry::signature::PublicKey;

#[cfg(feature = "cell")]
use crate::config::cell::Accept;
use crate::config::powers::PowerFault;
use crate::config::registry::{Place, place};
use crate::config::tool::{ApprovalRule, IsolationRule, ToolSection};
use crate::config::{self, Config};
use crate::exit::UsageError;
use crate::{published, render, user_folders};

/// Maximum number of components in one folder.
const MAX_COMPONENTS_IN_FOLDER: usize = 1_000;

/// A component of a configuration.
#[derive(Clone)]
pub(crate) struct ConfiguredComponent {
    /// Name of the component, which is the prefix of its tools' full names.
    pub(crate) name: Namespace,
    /// The file that contains it.
    pub(crate) file: PathBuf,
    /// Its file name or reference, for messages.
    pub(crate) label: String,
    /// The options for loading it: powers, limits and approval.
    pub(crate) load: Load,
    /// The limits of its calls.
    pub(crate) limits: Limits,
    /// True if it has to be approved.
    pub(crate) is_pinned: bool,
    /// The settings that decide, beside the file, what its tools may do.
    pub(crate) terms: LoadSettings,
}

impl ConfiguredComponent {
    /// Returns whether it is there because a folder in `tools_in` has it, and not because it is named anywhere.
    pub(crate) fn is_from_folder(&self) -> bool {
        self.is_pinned && self.terms.section.is_none()
    }
}

/// The settings that decide, beside the bytes of a component, what its tools may do and whether they may be called.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoadSettings {
    /// Its section; `None` if it comes from a folder or the command line, without any power.
    pub(crate) section: Option<ToolSection>,
    limits: Limits,
    docs: Option<WitDocs>,
    approved: Option<Digest>,
}

impl LoadSettings {
    /// Creates the settings of a component that has no power and needs no approval.
    pub(crate) fn powerless(limits: Limits) -> Self {
        Self { section: None, limits, docs: None, approved: None }
    }
}

/// The version of a component that a tag stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// The one that the lock pins, or else the one that was pulled last.
    Pinned,
    /// The one that the lock pins, or else the one that the registry has now.
    PinnedOrNew,
    /// The one that the registry has now.
    New,
}

/// Opens the lock of a configuration, which has the approvals.
///
/// # Errors
/// If the lock cannot be used.
pub(crate) fn open_lock(config: &Config) -> Result<Lock> {
    let mut lock = open_lock_beside(&config.origin, config.accept_lock)?;
    // Malformed keys were rejected when the file was read.
    let keys: Vec<PublicKey> = config.approval.keys.iter().filter_map(|key| key.parse().ok()).collect();
    lock.accept_signed(|text, signature| keys.iter().any(|key| key.verifies(text, signature)));
    Ok(lock)
}

/// Returns the path of the lock of a configuration.
pub(crate) fn lock_file(config: &Config) -> PathBuf {
    lock_file_beside(&config.origin)
}

/// Returns the path of the lock beside a configuration file.
pub(crate) fn lock_file_beside(origin: &Path) -> PathBuf {
    origin.with_extension("lock")
}

/// Opens the lock beside a configuration file, whatever that contains. Its entries are approvals if this user gave them, or if
/// all of them are accepted.
///
/// # Errors
/// If the lock cannot be used.
pub(crate) fn open_lock_beside(origin: &Path, is_accepted: bool) -> Result<Lock> {
    let file = lock_file_beside(origin);
    if is_accepted {
        return Ok(Lock::open(file)?);
    }
    Ok(Lock::open_for_user(file, user_folders::approvals().as_deref())?)
}

/// Returns the path of the record of this user's approvals, which changes with them.
pub(crate) fn record_path(config: &Config) -> Option<PathBuf> {
    user_folders::approvals().map(|folder| Lock::record_path(&folder, &lock_file(config)))
}

/// Returns the names in the lock that no component and no server of the configuration has.
///
/// # Errors
/// If a folder of components cannot be read.
pub(crate) fn stale_names(config: &Config, lock: &Lock) -> Result<BTreeSet<Namespace>> {
    let mut stale: BTreeSet<Namespace> = lock.names().into_iter().cloned().collect();
    for (name, _) in components_in_folders(config)? {
        stale.remove(&name);
    }
    stale.retain(|name| !config.tools.contains_key(name.as_str()) && !config.mcp.servers.contains_key(name.as_str()));
    Ok(stale)
}

/// Returns the component of this name, if the configuration has one.
///
/// # Errors
/// If something that it needs, such as the value of a secret, is not available.
pub(crate) async fn find(
    config: &Config,
    lock: &Lock,
    name: &str,
    version: Version,
) -> Result<Option<ConfiguredComponent>> {
    match config.tools.get(name) {
        Some(section) => {
            let mut stored = get_published(config, lock, &[(name, section)], version).await?;
            from_section(config, lock, name, section, stored.pop().flatten()).map(Some)
        }
        None => {
            let component = components_in_folders(config)?.into_iter().find(|(found, _)| found.as_str() == name);
            Ok(component.map(|(name, file)| from_folder(config, lock, name, file)))
        }
    }
}

/// Returns all components, in the order of their names.
///
/// # Errors
/// Like [`find`], or if a folder cannot be read.
pub(crate) async fn all(config: &Config, lock: &Lock, version: Version) -> Result<Vec<ConfiguredComponent>> {
    let sections: Vec<(&str, &ToolSection)> = config.tools.iter().map(|(name, it)| (name.as_str(), it)).collect();
    let stored = get_published(config, lock, &sections, version).await?;
    let mut all = Vec::new();
    for ((name, section), stored) in sections.into_iter().zip(stored) {
        all.push(from_section(config, lock, name, section, stored)?);
    }
    for (name, file) in components_in_folders(config)? {
        if !config.tools.contains_key(name.as_str()) {
            all.push(from_folder(config, lock, name, file));
        }
    }
    all.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
    Ok(all)
}

/// Returns the files of the command line without those that the configuration names itself, under the same names: these are
/// loaded once, with their settings there.
///
/// # Errors
/// If the configuration gives the name of one to something else, or a folder cannot be read.
pub(crate) fn without_configured(config: &Config, typed: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let in_folders = components_in_folders(config)?;
    let mut rest = Vec::new();
    for file in typed {
        // A reference is no file, and is compared when it was got.
        let named = file.canonicalize().ok().zip(Load::path(file).name().ok());
        let same_name = named.as_ref().and_then(|(_, name)| match config.tools.get(name.as_str()) {
            Some(section) => Some(section.component.as_ref().map(|file| config.path(file))),
            None => in_folders.iter().find(|(found, _)| found == name).map(|(_, file)| Some(file.clone())),
        });
        let (Some((real, name)), Some(other)) = (named, same_name) else {
            rest.push(file.clone());
            continue;
        };
        let real_other = other.as_deref().and_then(|other| other.canonicalize().ok());
        if real_other.is_none_or(|other| other != real) {
            let message = format!(
                "{} and {} have different components named `{name}`; rename one",
                config.origin.display(),
                file.display()
            );
            return Err(UsageError(message).into());
        }
    }
    Ok(rest)
}

/// Gets the components of those sections that have a reference.
async fn get_published(
    config: &Config,
    lock: &Lock,
    sections: &[(&str, &ToolSection)],
    version: Version,
) -> Result<Vec<Option<StoredComponent>>> {
    let mut places = Vec::new();
    let mut pinned = Vec::new();
    for (name, section) in sections {
        let Ok(Place::Reference(reference)) = place(section) else {
            places.push(None);
            continue;
        };
        let in_lock = if version == Version::New { None } else { pinned_reference(lock, name, &reference) };
        let is_known = published::is_pinned(&reference) || in_lock.is_some() || version == Version::Pinned;
        if is_known {
            pinned.push(in_lock.unwrap_or_else(|| reference.clone()));
        }
        places.push(Some((reference, is_known)));
    }
    let mut pinned = published::get_pinned(config, &pinned).await?.into_iter();
    let mut components = Vec::new();
    for place in places {
        components.push(match place {
            None => None,
            Some((_, true)) => pinned.next(),
            Some((reference, false)) => Some(published::get_typed(config, &reference).await?),
        });
    }
    Ok(components)
}

/// Returns the reference that the lock pins or proposes for a component, if it is of the same name and tag.
pub(crate) fn pinned_reference(lock: &Lock, name: &str, reference: &Reference) -> Option<Reference> {
    let Reference::Oci(wanted) = reference else { return None };
    let name = Namespace::parse(name).ok()?;
    let approval = lock.get(&name).or_else(|| lock.proposal(&name))?;
    let pinned: OciReference = approval.manifest().origin.as_ref()?.reference.parse().ok()?;
    let is_same = pinned.name() == wanted.name() && pinned.tag() == wanted.tag();
    (is_same && wanted.digest().is_none()).then_some(Reference::Oci(pinned))
}

/// Returns the name of a file for the screen.
pub(crate) fn file_name(file: &Path) -> String {
    let name = file.file_name().map_or_else(|| file.display().to_string(), |name| name.to_string_lossy().into_owned());
    fumehood::sanitize::printable(&name).into_owned()
}

/// Prepares the component of a section; `stored` is that of its reference.
///
/// # Errors
/// If something that it needs, such as the value of a secret, is not available.
pub(crate) fn from_section(
    config: &Config,
    lock: &Lock,
    name: &str,
    section: &ToolSection,
    stored: Option<StoredComponent>,
) -> Result<ConfiguredComponent> {
    let name = Namespace::parse(name).map_err(|error| UsageError(error.to_string()))?;
    let (load, file, label) = match (&stored, &section.component) {
        (Some(stored), _) => (Load::stored(stored), stored.path.clone(), stored.reference.to_string()),
        (None, Some(file)) => {
            // Messages have the name that the operator wrote, also where the file was fetched.
            let own = config.path(file);
            let fetched = fetched_file(config, lock, &name, section);
            let file = fetched.map_or_else(|| own.clone(), |(file, _)| file);
            (Load::path(&file), file, file_name(&own))
        }
        // A section without either was rejected when the file was read.
        (None, None) => return Err(UsageError(format!("[tools.{name}] has no `component`")).into()),
    };
    let values = |source: &fumehood::settings::ValueSource| read_value(source, config.folder());
    let grant = section.powers.grant(&config.absolute_folder(), &values).map_err(|faults| {
        let line = |PowerFault { key, entry, message }: &PowerFault| {
            let path = ["tools", name.as_str(), *key].into_iter().chain(entry.as_deref()).collect::<Vec<_>>();
            format!("{}: [tools.{name}] {message}", config.place_of(&path))
        };
        let lines = faults.iter().map(line);
        UsageError(lines.collect::<Vec<_>>().join("\n"))
    })?;
    let limits = section.limits.over(config::default_limits(config, name.as_str()));
    let is_pinned = section.approval == ApprovalRule::Required;
    let mut load = load.named(name.as_str()).limits(limits).grant(grant);
    if is_pinned {
        load = load.approval_below(config.absolute_folder(), lock.locked(&name));
    }
    if section.strict_imports {
        load = load.strict_imports();
    }
    if section.allow_slow_compile {
        load = load.allow_slow_compile();
    }
    let docs = section.wit.as_deref().map(|wit| WitDocs::read(config.path(wit)));
    let docs = docs
        .transpose()
        .with_context(|| UsageError(format!("[tools.{name}] wit: cannot read the descriptions of the tools")))?;
    if let Some(docs) = &docs {
        load = load.docs(docs.clone());
    }
    if let Some(command) = &section.command {
        let command = command.template();
        load = load.command(command.map_err(|error| UsageError(format!("[tools.{name}.command] {error}")))?);
    }
    if let Some(isolation) = section.isolation {
        load = load.isolation(isolation_of(isolation));
    }
    let approved = lock.get(&name).map(Approval::pin);
    let terms = LoadSettings { section: Some(section.clone()), limits, docs, approved };
    Ok(ConfiguredComponent { name, file, label, load, limits, is_pinned, terms })
}

fn isolation_of(rule: IsolationRule) -> Isolation {
    match rule {
        IsolationRule::Process => Isolation::Process,
        IsolationRule::ProcessPerTenant => Isolation::ProcessPerActor,
        IsolationRule::InProcess => Isolation::InProcess,
    }
}

/// Returns the file in which a component is kept that was or will be fetched over the cell, with its digest, for a section that
/// names a file which is not there. `None` if the configuration accepts no such components, or the lock approves none of this name.
#[cfg(feature = "cell")]
pub(crate) fn fetched_file(
    config: &Config,
    lock: &Lock,
    name: &Namespace,
    section: &ToolSection,
) -> Option<(PathBuf, Digest)> {
    let accepts = config.cell.as_ref().is_some_and(|cell| cell.accept == Some(Accept::Locked));
    let file = section.component.as_ref()?;
    if !accepts || section.approval != ApprovalRule::Required || config.path(file).exists() {
        return None;
    }
    let digest = lock.get(name)?.manifest().component?;
    Some((user_folders::fetched_components()?.join(format!("{}.wasm", digest.hex())), digest))
}

/// Returns nothing: this program was built without cells.
#[cfg(not(feature = "cell"))]
fn fetched_file(_: &Config, _: &Lock, _: &Namespace, _: &ToolSection) -> Option<(PathBuf, Digest)> {
    None
}

fn from_folder(config: &Config, lock: &Lock, name: Namespace, file: PathBuf) -> ConfiguredComponent {
    let limits = config.limits.over(Limits::default());
    let load = Load::path(&file)
        .named(name.as_str())
        .limits(limits)
        .approval_below(config.absolute_folder(), lock.locked(&name));
    let terms = LoadSettings { section: None, limits, docs: None, approved: lock.get(&name).map(Approval::pin) };
    let label = file_name(&file);
    ConfiguredComponent { name, file, label, load, limits, is_pinned: true, terms }
}

/// Returns the `.wasm` files of the folders in `tools_in`, each with its name. A file whose name makes none is left out, with a
/// warning.
///
/// # Errors
/// If a folder cannot be read, or two files have one name.
pub(crate) fn components_in_folders(config: &Config) -> Result<Vec<(Namespace, PathBuf)>> {
    let mut found: Vec<(Namespace, PathBuf)> = Vec::new();
    for folder in &config.tools_in {
        for file in components_in(&config.path(folder))? {
            let name = match Load::path(&file).name() {
                Ok(name) => name,
                Err(error) => {
                    warn_once(&file, &error.to_string());
                    continue;
                }
            };
            if let Some((_, other)) = found.iter().find(|(taken, _)| *taken == name) {
                let other = other.display();
                let file = file.display();
                let message = format!("{other} and {file} would both be called `{name}`; rename one of them");
                return Err(UsageError(message).into());
            }
            found.push((name, file));
        }
    }
    Ok(found)
}

/// Says, once in a process, that a file of a folder in `tools_in` is left out.
pub(crate) fn warn_once(file: &Path, why: &str) {
    static WARNED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if WARNED.lock().unwrap_or_else(PoisonError::into_inner).insert(file.to_owned()) {
        render::warning(&format!("skipping {}: {why}", file.display()));
    }
}

fn components_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = || UsageError(format!("cannot read the folder {} of `tools_in`", folder.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "wasm") && path.is_file() {
            files.push(path);
        }
        if files.len() > MAX_COMPONENTS_IN_FOLDER {
            let message =
                format!("the folder {} has more than {MAX_COMPONENTS_IN_FOLDER} components", folder.display());
            return Err(UsageError(message).into());
        }
    }
    files.sort();
    Ok(files)
}
