//! The trust in cases of `fumehood test` that reach beyond their project.
//!
//! A project may be a stranger's. Its cases are granted folders within it and scratch folders, and talk to the servers that
//! they play. Everything else counts only once the user trusts the file with the cases, as it is and where it is.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;
use fumehood::Grant;
use fumehood::permission::files::{Access, Folder};
use fumehood::settings::{LimitsSection, SecretSection, ValueSource, Wish, Wishes, read_value};
use fumehood_author::cases::{Case, CaseFile};

use super::effects::{Effect, quote, wrap};
use super::{TrustStatus, TrustStore};
use crate::args::Arguments;
use crate::config::{Powers, grant_of_powers, powers_of_table, resolve};
use crate::exit::UntrustedCasesError;
use crate::{question, render};

/// The beginning of the variable in place of a secret whose value a case has. No environment variable has such a name.
const CASE_SECRET: &str = "=case=";
/// The wishes that cases are granted. Others reach beyond the servers of the case, or need an answer of the operator.
const WISHES_OF_CASES: [&str; 6] = ["http", "http_limits", "scratch", "key_value", "secrets", "limits"];
/// Folders that version control keeps its own files in. They come from no publisher, and what is in them may run programs.
const VERSION_CONTROL: [&str; 5] = [".git", ".hg", ".svn", ".jj", ".bzr"];

/// The powers beyond the project that the cases of this run may be granted.
pub(crate) struct TrustedCases {
    project: PathBuf,
    trusted: BTreeSet<String>,
}

impl TrustedCases {
    /// Checks that the user trusts every file with a chosen case that reaches beyond the project. A person at the terminal is
    /// asked.
    ///
    /// # Errors
    /// If one of them is not trusted, or has a grant that is not valid.
    pub(crate) fn check(arguments: &Arguments, project: &Path, chosen: &[(&CaseFile, &Case)]) -> Result<Self> {
        let mut trusted = BTreeSet::new();
        let mut done: Option<&Path> = None;
        for (file, case) in chosen {
            if reach_of_case(case, project)?.is_empty() {
                continue;
            }
            if done != Some(&file.path) {
                require_trust(arguments, project, file)?;
                done = Some(&file.path);
            }
            trusted.extend(reach_of_case(case, project)?);
        }
        Ok(Self { project: project.to_owned(), trusted })
    }

    /// Makes the grant of a case: its own table, and what the manifest asks for under other keys. Its own is compared with what
    /// is trusted again, because a case before it may have put a link in the place of a folder.
    ///
    /// # Errors
    /// If it is not valid, or reaches further than what is trusted.
    pub(crate) fn grant(&self, case: &Case, wishes: &Wishes, folder: &Path) -> Result<Grant, String> {
        let mut powers = powers_of_table(&case.grant)?;
        if let Some(other) = reach(&powers, &self.project)?.into_iter().find(|what| !self.trusted.contains(what)) {
            return Err(format!("it reaches beyond the project, and is not trusted: {other}"));
        }
        add_wishes(&mut powers, case, wishes)?;
        grant_of_powers(&powers, folder, &|source| read_case_value(case, source, folder))
    }
}

/// Adds what the manifest asks for: what needs no answer of an operator, and the secrets whose values the case has. Requests go
/// to the servers of the case, and keys and values stay in memory.
fn add_wishes(powers: &mut Powers, case: &Case, wishes: &Wishes) -> Result<(), String> {
    let known: Vec<&str> = wishes.iter().filter_map(Wish::secret_name).collect();
    if let Some(name) = case.secrets.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("`secrets` has `{name}`, and the manifest asks for no such secret; add it to its wishes"));
    }
    let mut limits = LimitsSection::default();
    let is_open = |wish: &&Wish| WISHES_OF_CASES.contains(&wish.key()) && !case.grant.contains_key(wish.key());
    for wish in wishes.iter().filter(is_open) {
        match wish.secret_name().filter(|name| case.secrets.contains_key(*name)) {
            Some(name) => wish.add_to(powers, &mut limits, Some(&format!("{CASE_SECRET}{name}"))),
            None if wish.missing_value().is_none() => wish.add_to(powers, &mut limits, None),
            None => {}
        }
    }
    if powers.http.is_empty() && !case.grant.contains_key("http_limits") {
        powers.http_limits = None;
    }
    Ok(())
}

/// Returns the value of a secret: one that the case has, or one of the user.
fn read_case_value(case: &Case, source: &ValueSource, folder: &Path) -> Result<String, String> {
    let own = match source {
        ValueSource::Env(variable) => variable.strip_prefix(CASE_SECRET).and_then(|name| case.secrets.get(name)),
        _ => None,
    };
    own.map_or_else(|| read_value(source, folder), |value| Ok(value.clone()))
}

/// Returns what the cases of a file may reach beyond their project.
///
/// # Errors
/// If a grant is not valid.
pub(crate) fn effects_of_cases(file: &CaseFile, project: &Path) -> Result<Vec<Effect>> {
    let mut effects = Vec::new();
    for case in &file.cases {
        let what = reach_of_case(case, project)?.into_iter();
        effects.extend(what.map(|what| Effect { kind: "grant", what: format!("case {}: {what}", quote(&case.name)) }));
    }
    Ok(effects)
}

/// Returns the project of a file with cases; `None` for a file elsewhere. A folder `tests` that is a link to that of another
/// project does not make them its cases.
pub(crate) fn project_of_cases(file: &Path) -> Option<PathBuf> {
    let folder = match file.parent()? {
        folder if folder.as_os_str().is_empty() => Path::new("."),
        folder => folder,
    };
    let real = folder.canonicalize().ok()?;
    (real.file_name()? == "tests").then(|| real.parent().map(Path::to_owned))?
}

/// Trusts a file with cases as it is after this program changed it, if the user trusted it before and it reaches no further.
///
/// # Errors
/// If the trust cannot be kept.
pub(crate) fn keep_trust(before: &CaseFile, project: &Path) -> Result<()> {
    let Ok(store) = TrustStore::for_current_user() else { return Ok(()) };
    if store.status(&before.path, &before.text) != TrustStatus::Trusted {
        return Ok(());
    }
    let after = CaseFile::read(&before.path)?;
    if effects_of_cases(&after, project)? == effects_of_cases(before, project)? {
        store.trust(&after.path, &after.text)?;
    }
    Ok(())
}

fn require_trust(arguments: &Arguments, project: &Path, file: &CaseFile) -> Result<()> {
    if arguments.trust_config {
        return Ok(());
    }
    let shown = file.path.display();
    let is_own =
        project_of_cases(&file.path).is_some_and(|found| project.canonicalize().is_ok_and(|real| real == found));
    let effects = wrap(&effects_of_cases(file, project)?);
    let error = |why| UntrustedCasesError { file: shown.to_string(), why, effects: effects.join("\n") };
    if !is_own {
        return Err(error("is not in the folder `tests` of this project, because that folder is a link").into());
    }
    let store = TrustStore::for_current_user()?;
    let status = store.status(&file.path, &file.text);
    if status == TrustStatus::Trusted {
        return Ok(());
    }
    if !arguments.json && question::can_ask() {
        render::note(&format!("{shown} reaches beyond the project. With it, this command may:"));
        effects.iter().for_each(|line| render::note(line));
        if question::ask(&format!("Trust {shown} in its current state?"))? {
            return store.trust(&file.path, &file.text);
        }
    }
    let why = if status == TrustStatus::Changed { "changed since it was trusted" } else { "is not trusted" };
    Err(error(why).into())
}

fn reach_of_case(case: &Case, project: &Path) -> Result<Vec<String>> {
    let powers = powers_of_table(&case.grant).and_then(|powers| reach(&powers, project));
    powers.map_err(|reason| fumehood_author::cases::RunError::Case { case: case.name.clone(), reason }.into())
}

/// Returns what powers reach beyond the project: folders and secrets. Requests go nowhere but to the servers of the case.
fn reach(powers: &Powers, project: &Path) -> Result<Vec<String>, String> {
    let files = Powers { read: powers.read.clone(), write: powers.write.clone(), ..Powers::default() };
    let grant = grant_of_powers(&files, project, &|source| read_value(source, project))?;
    let outside = grant.folders().iter().filter(|folder| !is_within(folder, project)).map(|folder| {
        let verb = if folder.access() == Access::Read { "read" } else { "change" };
        // Where a link leads to, because it may lead elsewhere later.
        let real = real_path(folder.host()).unwrap_or_else(|| folder.host().to_owned());
        format!("{verb} the folder {}", quote(&real.to_string_lossy()))
    });
    let secrets = powers.secrets.iter().filter(|secret| !is_in_project(secret, project));
    let secrets = secrets.map(|SecretSection { from, .. }| format!("use {} as a secret", from.place()));
    Ok(outside.chain(secrets).collect())
}

fn is_in_project(secret: &SecretSection, project: &Path) -> bool {
    match &secret.from {
        ValueSource::File(file) => is_below(&resolve(project, file), project),
        ValueSource::Env(_) | ValueSource::Keyring(_) => false,
    }
}

fn is_within(folder: &Folder, project: &Path) -> bool {
    let host = folder.host();
    is_below(host, project) && (folder.access() == Access::Read || !has_version_control(host, project))
}

/// Returns whether a path leads to the project or into it, links followed.
fn is_below(path: &Path, project: &Path) -> bool {
    match (real_path(path), project.canonicalize()) {
        (Some(path), Ok(project)) => path.starts_with(project),
        _ => false,
    }
}

/// Returns whether a folder is one of version control, or has one.
fn has_version_control(folder: &Path, project: &Path) -> bool {
    let (Some(folder), Ok(project)) = (real_path(folder), project.canonicalize()) else { return true };
    let below = folder.strip_prefix(&project).unwrap_or(Path::new(""));
    below.components().any(|part| match part {
        Component::Normal(name) => VERSION_CONTROL.iter().any(|known| name.eq_ignore_ascii_case(known)),
        _ => false,
    }) || VERSION_CONTROL.iter().any(|name| folder.join(name).symlink_metadata().is_ok())
}

/// Returns a path without links; of one that does not exist, the part that does. `None` if that is not known.
fn real_path(path: &Path) -> Option<PathBuf> {
    match path.canonicalize() {
        Ok(real) => Some(real),
        // A link without a target is not a path that does not exist.
        Err(_) if path.symlink_metadata().is_ok() => None,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Some(real_path(path.parent()?)?.join(path.file_name()?))
        }
        Err(_) => None,
    }
}
