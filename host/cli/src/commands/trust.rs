//! `fumehood trust`: shows the effects of a configuration, asks, and trusts it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use fumehood_author::cases::CaseFile;
use serde::Serialize;

use super::approve;
use crate::app::App;
use crate::args::{self, Arguments};
use crate::config::{self, Config, DEFAULT_FILE_NAME, text_of};
use crate::configured::Version;
use crate::exit::{Exit, UnansweredError, UsageError};
use crate::trust::{Effect, TrustStatus, TrustStore, effects, effects_of_cases, project_of_cases, wrap};
use crate::{question, render};

/// The trust in a configuration, for `--json`.
#[derive(Serialize)]
struct TrustLine<'a> {
    file: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    effects: &'a [Effect],
}

/// Runs the command. Without `--approve` it starts nothing, and reads none of the files that the configuration names.
pub(crate) async fn run(arguments: &Arguments, trust: &args::Trust) -> Result<Exit> {
    let store = TrustStore::for_current_user()?;
    if trust.list {
        return list(arguments, &store);
    }
    let file = config_path(arguments, trust);
    let path = file.display().to_string();
    if trust.revoke {
        if !store.revoke(&file).with_context(|| format!("cannot revoke the trust in {path}"))? {
            return Err(UsageError(format!(
                "{path} was not trusted; `fumehood trust --list` lists trusted configurations"
            ))
            .into());
        }
        report(arguments, &path, "revoked", &[])?;
        return Ok(Exit::Ok);
    }
    let text = text_of(&file)?;
    let effects = read_effects(trust, &file, &text)?;
    let status = store.status(&file, &text);
    if !arguments.json {
        render::line(&format!("{path} may:"))?;
        wrap(&effects).iter().try_for_each(|line| render::line(line))?;
    }
    if trust.check {
        let status_word = if status == TrustStatus::Trusted { "trusted" } else { "not_trusted" };
        report(arguments, &path, status_word, &effects)?;
        return Ok(if status == TrustStatus::Trusted { Exit::Ok } else { Exit::Refused });
    }
    if status != TrustStatus::Trusted && !is_wanted(arguments, trust, &path)? {
        report(arguments, &path, "not_trusted", &effects)?;
        return Ok(Exit::Refused);
    }
    store.trust(&file, &text).with_context(|| format!("cannot save the trust in {path}"))?;
    report(arguments, &path, "trusted", &effects)?;
    if !trust.approve {
        return Ok(Exit::Ok);
    }
    // The text that was shown, whatever the file has become since.
    let app = App::with_config(arguments, config::parse(&file, &text)?);
    let review = args::Approve { yes: trust.yes, ..args::Approve::default() };
    approve::review(&app, &review, Version::PinnedOrNew).await
}

/// Returns whether the operator wants to trust the file that was shown.
///
/// # Errors
/// If there is no terminal to ask at.
fn is_wanted(arguments: &Arguments, trust: &args::Trust, path: &str) -> Result<bool> {
    if trust.yes {
        return Ok(true);
    }
    if !approve::can_ask(arguments) {
        return Err(UnansweredError(format!("{path} was not trusted")).into());
    }
    question::ask(&format!("Trust {path} in its current state?"))
}

/// Returns the effects of a configuration, or of a file with cases: one that has cases, in the folder `tests` of a project.
fn read_effects(trust: &args::Trust, file: &Path, text: &str) -> Result<Vec<Effect>> {
    match (project_of_cases(file), CaseFile::parse(file, text)) {
        (Some(_), Ok(cases)) if !cases.cases.is_empty() && trust.approve => {
            let message = format!("{} has test cases, which need no approval; leave `--approve` out", file.display());
            Err(UsageError(message).into())
        }
        (Some(project), Ok(cases)) if !cases.cases.is_empty() => effects_of_cases(&cases, &project),
        _ => Ok(effects(&config::parse(file, text)?)),
    }
}

fn config_path(arguments: &Arguments, trust: &args::Trust) -> PathBuf {
    match &trust.path {
        Some(folder) if folder.is_dir() => folder.join(DEFAULT_FILE_NAME),
        Some(file) => file.clone(),
        None => Config::place(arguments.config.as_deref()),
    }
}

fn list(arguments: &Arguments, store: &TrustStore) -> Result<Exit> {
    for record in store.list() {
        report(arguments, &record.file, "trusted", &[])?;
    }
    Ok(Exit::Ok)
}

fn report(arguments: &Arguments, file: &str, status: &'static str, effects: &[Effect]) -> Result<()> {
    if arguments.json {
        return render::json(&TrustLine { file, status, effects });
    }
    let file = fumehood::sanitize::printable(file).replace('\n', "\\n");
    let words = match status {
        "revoked" => "is no longer trusted",
        "trusted" => "is trusted in its current state",
        _ => "is not trusted",
    };
    render::line(&format!("{file} {words}"))
}
