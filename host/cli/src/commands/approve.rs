//! `fumehood approve`: shows what a component or an MCP server is and may do, and approves its tools.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use fumehood::approval::{ApprovalNote, ApprovalStatus, Entry, Manifest};
use fumehood::settings::Wishes;
use fumehood::{ApprovalCheck, Host, Lock, McpTools, Namespace, PrintableText};
use serde::Serialize;

use super::revoke;
use crate::app::App;
use crate::args::{self, Arguments};
use crate::config::Config;
use crate::config::amount::MAX_MEMORY_BYTES;
use crate::config::registry::{Place, place};
use crate::configured::{self, ConfiguredComponent, Version};
use crate::exit::{Exit, UnansweredError, UsageError};
use crate::render::{Origin, WishReport};
use crate::servers::{self, Server};
use crate::signing_key::KeyFiles;
use crate::{host, moment, published, question, render};

/// Maximum length of the name of an approver, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// The beginning of the line of a provenance with the time of the signature.
const SIGNED_AT: &str = "signed at: ";

/// Approval of one component, for `--json`.
#[derive(Serialize)]
pub(crate) struct ApprovalLine<'a> {
    name: &'a str,
    status: &'static str,
    pin: String,
    /// True if the lock has exactly this approval, from somebody else.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    proposed: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    changes: &'a [fumehood::approval::Change],
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<&'a Manifest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wishes: Option<WishReport>,
}

/// The command or address of a server, for `--json`.
#[derive(Serialize)]
struct EntryLine<'a> {
    name: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<&'a [String]>,
    entry: &'a [String],
}

/// A component or server that can be approved.
enum Candidate {
    Component(Box<ConfiguredComponent>),
    Server(Box<Server>),
}

impl Candidate {
    fn name(&self) -> &Namespace {
        match self {
            Self::Component(component) => &component.name,
            Self::Server(server) => &server.name,
        }
    }

    fn is_pinned(&self) -> bool {
        match self {
            Self::Component(component) => component.is_pinned,
            Self::Server(server) => server.is_pinned,
        }
    }
}

pub(crate) async fn run(arguments: &Arguments, approve: &args::Approve) -> Result<Exit> {
    if approve.by.as_ref().is_some_and(|by| by.len() > MAX_NAME_BYTES) {
        return Err(UsageError(format!("`--by` has more than {MAX_NAME_BYTES} bytes; shorten it")).into());
    }
    if approve.revoke {
        return revoke::revoke_named(arguments, &approve.names);
    }
    if approve.prune {
        return revoke::revoke_stale(arguments);
    }
    review(&App::open(arguments)?, approve, Version::PinnedOrNew).await
}

/// Shows components and servers, and approves them if the operator says so. A component with a tag is of this version.
///
/// # Errors
/// If one of them cannot be looked at, or there is no terminal to ask at.
pub(crate) async fn review(app: &App<'_>, approve: &args::Approve, version: Version) -> Result<Exit> {
    let arguments = app.arguments;
    let config = &app.config;
    let mut lock = app.lock()?.clone();
    let key = approve.sign.as_deref().map(|key| KeyFiles::find(key)?.open(&approve.passphrase)).transpose()?;
    report_proposals(arguments, &lock);
    let candidates = choose_candidates(config, &lock, approve, version).await?;
    let host = app.host_builder()?.memory_ceiling(MAX_MEMORY_BYTES).build()?;
    let mut open = Vec::new();
    let mut failed = Vec::new();
    let several = candidates.len() > 1;
    for candidate in candidates {
        if let Candidate::Server(server) = &candidate
            && server.reason_not_to_start(&lock).is_some()
            && !decide_entry(arguments, approve, &mut lock, server)?
        {
            open.push(candidate.name().to_string());
            continue;
        }
        let (origin, check) = match inspect_candidate(&host, config, &lock, &candidate).await {
            Ok(found) => found,
            // An error of one does not keep the others from being looked at.
            Err(error) if several => {
                render::warning(&format!("`{}` could not be reviewed: {error:#}", candidate.name()));
                failed.push(candidate.name().to_string());
                continue;
            }
            Err(error) => return Err(error),
        };
        if !decide(arguments, approve, &mut lock, candidate.name(), &origin, &check)? {
            open.push(candidate.name().to_string());
        }
    }
    host.shutdown(Duration::ZERO).await;
    if let Some(key) = key {
        lock.sign(|text| key.sign_text(text).map_err(|error| error.to_string()))?;
        lock.save()?;
        render::note(&format!("signed your approvals in {}", lock.path().display()));
    }
    if approve.names.is_empty() {
        revoke::report_stale(app, &lock)?;
    }
    if !failed.is_empty() {
        let message = "they were not approved; correct the errors above, and approve again";
        return Err(anyhow::anyhow!("could not review: {}; {message}", failed.join(", ")));
    }
    if open.is_empty() {
        return Ok(Exit::Ok);
    }
    if !approve.check && !approve.yes && !can_ask(arguments) {
        return Err(UnansweredError(format!("no approval was given for {}", open.join(", "))).into());
    }
    Ok(Exit::Refused)
}

/// Returns the named candidates, or all that need approval.
async fn choose_candidates(
    config: &Config,
    lock: &Lock,
    approve: &args::Approve,
    version: Version,
) -> Result<Vec<Candidate>> {
    if approve.names.is_empty() {
        let components =
            configured::all(config, lock, version).await?.into_iter().map(|it| Candidate::Component(Box::new(it)));
        let servers = servers::all(config)?.into_iter().map(|server| Candidate::Server(Box::new(server)));
        let candidates: Vec<_> = components.chain(servers).filter(Candidate::is_pinned).collect();
        if candidates.is_empty() {
            let file = config.origin.display();
            render::note(&if config.origin.exists() {
                format!("{file} has no components that need approval")
            } else {
                format!("there is no {file}, so nothing needs approval")
            });
        }
        return Ok(candidates);
    }
    let mut candidates = Vec::new();
    for name in &approve.names {
        match find_candidate(config, lock, name, version).await? {
            Some(candidate) if candidate.is_pinned() => candidates.push(candidate),
            Some(_) => {
                return Err(UsageError(format!("`{name}` needs no approval: it has approval = \"off\"")).into());
            }
            None => return Err(unknown_component(config, name).into()),
        }
    }
    Ok(candidates)
}

async fn find_candidate(config: &Config, lock: &Lock, name: &str, version: Version) -> Result<Option<Candidate>> {
    match servers::find(config, name)? {
        Some(server) => Ok(Some(Candidate::Server(Box::new(server)))),
        None => {
            let component = configured::find(config, lock, name, version).await?;
            Ok(component.map(|it| Candidate::Component(Box::new(it))))
        }
    }
}

/// Returns the error for a name that is not configured, with the names that are.
pub(crate) fn unknown_component(config: &Config, name: &str) -> UsageError {
    if !config.origin.exists() {
        return UsageError(format!("unknown component `{name}`; {} does not exist", config.origin.display()));
    }
    let components = config.tools.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let servers = config.mcp.servers.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let has = match (components.as_str(), servers.as_str()) {
        ("", "") => "it has none".to_owned(),
        (components, "") => format!("it has: {components}"),
        ("", servers) => format!("it has the MCP servers: {servers}"),
        (components, servers) => format!("it has: {components}; and the MCP servers: {servers}"),
    };
    UsageError(format!("{} has no component `{name}`; {has}", config.origin.display()))
}

/// Loads a component, or lists the tools of a server, and compares it with its approval.
async fn inspect_candidate(
    host: &Host,
    config: &Config,
    lock: &Lock,
    candidate: &Candidate,
) -> Result<(Origin, ApprovalCheck)> {
    match candidate {
        Candidate::Component(component) => {
            let loaded = host::load(host, &component.label, component.load.clone()).await?;
            let check =
                approval_check(host, &component.name).context("the component was loaded without a comparison")?;
            let approved_wishes =
                if check.standing().is_approved() { None } else { approved_wishes(config, lock, component) };
            Ok((Origin::File { file: component.label.clone(), component: loaded, approved_wishes }, check))
        }
        Candidate::Server(server) => {
            let name = &server.name;
            servers::warn_of_jails([&**server]);
            let remote = server.remote(config)?;
            let tools = McpTools::without_arguments(servers::actor_arguments(config));
            let added = tools.add_pinned(&remote, server.entry.clone(), lock.locked(name)).await;
            tools.close().await;
            servers::warn_of_tools(name, Some(&tools.refused()), Some(&tools.unchecked()));
            let check = added.with_context(|| format!("cannot review the MCP server `{name}`"))?;
            Ok((Origin::Server, check))
        }
    }
}

/// Returns the wishes of the approved version of a component; `None` if it is not in the store.
fn approved_wishes(config: &Config, lock: &Lock, component: &ConfiguredComponent) -> Option<Box<Wishes>> {
    let Ok(Place::Reference(reference)) = place(component.terms.section.as_ref()?) else { return None };
    let approved = configured::pinned_reference(lock, component.name.as_str(), &reference)?;
    let stored = published::stored_source(config).ok()?.stored_all(&[approved]).pop()?.ok()?;
    let text = fumehood::read_wishes(&std::fs::read(stored.path).ok()?);
    Some(Box::new(text.and_then(|text| Wishes::from_section(&text).ok()).unwrap_or_default()))
}

/// Shows the command or address of a server before it is used, and approves it if the operator says so. Returns whether
/// it is approved.
fn decide_entry(arguments: &Arguments, approve: &args::Approve, lock: &mut Lock, server: &Server) -> Result<bool> {
    let Server { name, entry, .. } = server;
    let old = lock.previous_entry(name).map(Entry::lines);
    if arguments.json {
        let status = if approve.yes { "entry_approved" } else { "entry_needs_approval" };
        render::json(&EntryLine { name: name.as_str(), status, old, entry })?;
    } else {
        render::server_entry(name.as_str(), old, entry)?;
        server.package_hint().iter().for_each(|hint| render::hint(hint));
    }
    if approve.check {
        return Ok(false);
    }
    let question = format!("Start or connect to `{name}` like this, to review its tools?");
    if approve.yes || (can_ask(arguments) && question::ask(&question)?) {
        lock.approve_entry(name.clone(), Entry::new(entry.clone()));
        lock.save()?;
        return Ok(true);
    }
    Ok(false)
}

/// Shows a component or the tools of a server, and approves them if the operator says so. Returns whether they are
/// approved.
fn decide(
    arguments: &Arguments,
    approve: &args::Approve,
    lock: &mut Lock,
    name: &Namespace,
    origin: &Origin,
    check: &ApprovalCheck,
) -> Result<bool> {
    let is_approved = check.standing().is_approved();
    warn_if_older(lock, name, check);
    let status = match is_approved {
        true => "unchanged",
        false if approve.check => "needs_approval",
        false if approve.yes => "approved",
        false => "needs_approval",
    };
    if arguments.json {
        let proposed = is_proposed(lock, name, check);
        render::json(&ApprovalLine { proposed, ..approval_line(name.as_str(), status, origin, check) })?;
    } else {
        render::approval(name.as_str(), origin, check, approve.full)?;
        if is_proposed(lock, name, check) {
            render::note(&format!("{} already has this approval, by another person", lock.path().display()));
        }
    }
    if is_approved || approve.check {
        return Ok(is_approved);
    }
    if approve.yes || (can_ask(arguments) && question::ask(&format!("Approve `{name}`?"))?) {
        let note = approval_note(approve.by.as_deref());
        lock.approve_with_note(name.clone(), check.parts().clone(), note);
        lock.save()?;
        render::note(&format!("approved `{name}` in {}", lock.path().display()));
        return Ok(true);
    }
    Ok(false)
}

/// Says that the lock has approvals which this user did not give, and how many are unchanged.
fn report_proposals(arguments: &Arguments, lock: &Lock) {
    let proposed = lock.proposed_names();
    let all = lock.names().len();
    if proposed.is_empty() || arguments.json {
        return;
    }
    let names: Vec<String> = proposed.iter().map(|name| format!("`{name}`")).collect();
    let path = lock.path().display();
    render::note(&format!(
        "{path} was changed by another person: {} of {all} are unchanged since you approved them; not approved by \
         you: {}",
        all - proposed.len(),
        names.join(", ")
    ));
}

/// Returns the time at which a release was signed, parsed and as text.
fn signed_at(manifest: &Manifest) -> Option<(SystemTime, String)> {
    let lines = manifest.origin.as_ref()?.provenance.iter();
    let time = lines.filter_map(|line| line.strip_prefix(SIGNED_AT)).next()?.to_owned();
    Some((humantime::parse_rfc3339_weak(&time).ok()?, time))
}

/// Warns of a release that was signed before the one that is approved: a tag such as `latest` may go back.
fn warn_if_older(lock: &Lock, name: &Namespace, check: &ApprovalCheck) {
    let approved = lock.get(name).and_then(|approval| signed_at(approval.manifest()));
    if let (Some((before, approved)), Some((now, found))) = (approved, signed_at(check.parts()))
        && now < before
    {
        render::warning(&format!(
            "`{name}` is an older release: it was signed at {found}, but the approved version at {approved}"
        ));
    }
}

/// Returns whether somebody else approved exactly this.
fn is_proposed(lock: &Lock, name: &Namespace, check: &ApprovalCheck) -> bool {
    lock.proposal(name).is_some_and(|proposal| proposal.pin() == check.parts().pin())
}

/// Returns what the lock keeps of an approval that is given now.
pub(crate) fn approval_note(by: Option<&str>) -> ApprovalNote {
    ApprovalNote { by: by.map(PrintableText::from), at: moment::now() }
}

pub(crate) fn approval_line<'a>(
    name: &'a str,
    status: &'static str,
    origin: &Origin,
    check: &'a ApprovalCheck,
) -> ApprovalLine<'a> {
    let (changes, parts) = match check.standing() {
        ApprovalStatus::NeverApproved => (&[][..], Some(check.parts())),
        ApprovalStatus::Proposed(changes) if changes.is_empty() => (&[][..], Some(check.parts())),
        ApprovalStatus::Changed(changes) | ApprovalStatus::Proposed(changes) => (changes.as_slice(), None),
        ApprovalStatus::Approved => (&[][..], None),
    };
    let pin = check.parts().pin().to_string();
    ApprovalLine { name, status, pin, proposed: false, changes, parts, wishes: origin.wishes() }
}

/// Compares a loaded component with its approval; `None` if it needs no approval or has no tools.
pub(crate) fn approval_check(host: &Host, name: &Namespace) -> Option<ApprovalCheck> {
    host.component(name.as_str())?.approval().cloned()
}

pub(crate) fn can_ask(arguments: &Arguments) -> bool {
    !arguments.json && question::can_ask()
}
