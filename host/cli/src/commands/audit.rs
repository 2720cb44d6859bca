//! `fumehood audit`: lists every configured component with its signer, its age, grants that it never used, newer versions and
//! revocations.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use fumehood::approval::Approval;
use fumehood::event_log::{Filter, Order, Reader};
use fumehood::record::RecordKind;
use fumehood::{Digest, Lock, Namespace, QualifiedName, RegistrySource};
use fumehood_registry::client::RegistryClient;
use fumehood_registry::fetch::FetchError;
use fumehood_registry::policy::Trust;
use fumehood_registry::reference::Reference;
use serde::Serialize;

use crate::app::App;
use crate::args::Arguments;
use crate::config::Config;
use crate::config::registry::{Place, place};
use crate::config::tool::ToolSection;
use crate::configured::{self, pinned_reference};
use crate::exit::Exit;
use crate::registry::registry_client;
use crate::render::quotation::Quotation;
use crate::render::{self, BAD, GOOD, STRONG, line, styled};
use crate::{log_place, published};

/// Maximum number of calls of the log that are looked at, the newest first.
const MAX_CALLS: usize = 100_000;
/// Beginning of the grants whose use the log records.
const HTTP_GRANT: &str = "http";

/// One component of the configuration.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    /// The file, or the reference with the digest that the lock pins.
    place: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    component: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signer: Option<String>,
    /// The time of the signature, as the signer states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_at: Option<String>,
    is_approved: bool,
    /// Number of calls in the log; `None` if there is no log.
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<u64>,
    unused_grants: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    update: Option<String>,
    /// A higher version than that of the tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    newer: Option<String>,
    /// A reason why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    /// True if the policy refuses it.
    is_forbidden: bool,
}

/// The use of one component, by the log.
#[derive(Debug, Default, Clone, Copy)]
struct Use {
    calls: u64,
    has_requests: bool,
}

pub(crate) async fn run(arguments: &Arguments) -> Result<Exit> {
    let app = App::open(arguments)?;
    let config = &app.config;
    let lock = app.lock()?;
    let uses = read_uses(config)?;
    let source = published::source(config)?;
    let has_tags = config.tools.values().any(|section| section.reference.is_some());
    let client = if has_tags && !config.offline { Some(registry_client(&published::settings(config))?) } else { None };
    let mut rows = Vec::new();
    for (name, section) in &config.tools {
        let used = uses.as_ref().map(|uses| uses.get(name).copied().unwrap_or_default());
        rows.push(row(config, lock, &source, client.as_ref(), name, section, used).await?);
    }
    for (name, file) in configured::components_in_folders(config)? {
        let used = uses.as_ref().map(|uses| uses.get(name.as_str()).copied().unwrap_or_default());
        rows.push(row_of_file(&source, &name, lock.get(&name), file.display().to_string(), used));
    }
    if arguments.json {
        render::json(&rows)?;
    } else if rows.is_empty() {
        render::note(&format!("{} has no components", config.origin.display()));
    } else {
        rows.iter().try_for_each(print)?;
    }
    Ok(if rows.iter().any(|row| row.is_forbidden) { Exit::Refused } else { Exit::Ok })
}

async fn row(
    config: &Config,
    lock: &Lock,
    source: &RegistrySource,
    client: Option<&RegistryClient>,
    name: &str,
    section: &ToolSection,
    used: Option<Use>,
) -> Result<Row> {
    let namespace = Namespace::parse(name)?;
    let approval = lock.get(&namespace);
    let reference = match place(section) {
        Ok(Place::Reference(reference)) => reference,
        Ok(Place::File(file)) => {
            let place = config.path(file).display().to_string();
            return Ok(row_of_file(source, &namespace, approval, place, used));
        }
        // Such a section was rejected when the file was read.
        Err(message) => anyhow::bail!("[tools.{name}]: {message}"),
    };
    let pinned = pinned_reference(lock, name, &reference).unwrap_or_else(|| reference.clone());
    let found = source.stored(&pinned);
    let mut row = row_of_file(source, &namespace, approval, pinned.to_string(), used);
    match &found {
        Ok(stored) => {
            (row.place, row.component) = (stored.reference.to_string(), Some(stored.digest));
            if let Some(Trust::Verified(verified)) = &stored.trust {
                row.signer = Some(verified.key.to_string());
                row.signed_at = verified.claim.provenance.signed_at.as_ref().map(ToString::to_string);
            }
        }
        Err(error) => {
            row.is_forbidden |= matches!(error, FetchError::Policy(_));
            row.refused = Some(error.to_string());
        }
    }
    row.is_approved = approval.is_some_and(|approval| {
        approval.manifest().origin.as_ref().is_some_and(|origin| *origin.reference == *row.place)
    });
    if let (Some(client), Reference::Oci(oci)) = (client, &reference)
        && oci.digest().is_none()
    {
        row.update = match client.resolve(oci).await {
            Ok(resolved) if resolved.reference.to_string() == row.place => None,
            Ok(resolved) => {
                Some(format!("{oci} is {} now; `fumehood update {name}` shows what changed", resolved.manifest))
            }
            Err(error) => Some(format!("unknown: {error}")),
        };
    }
    if let Reference::Oci(oci) = &reference {
        row.newer = published::newer_version(source, name, oci).await;
    }
    Ok(row)
}

/// Returns the row of a component by its approval alone.
fn row_of_file(
    source: &RegistrySource,
    name: &Namespace,
    approval: Option<&Approval>,
    place: String,
    used: Option<Use>,
) -> Row {
    let manifest = approval.map(Approval::manifest);
    let component = manifest.and_then(|manifest| manifest.component);
    let digests: Vec<Digest> = component.into_iter().collect();
    let refused = source.policy().check_revoked(name.as_str(), &digests).err();
    let grants = manifest.map(|manifest| manifest.grants.as_slice()).unwrap_or_default();
    let is_unused = |grant: &&String| {
        used.is_some_and(|used| used.calls == 0 || (grant.starts_with(HTTP_GRANT) && !used.has_requests))
    };
    Row {
        name: name.to_string(),
        place,
        component,
        signer: None,
        signed_at: None,
        is_approved: approval.is_some(),
        calls: used.map(|used| used.calls),
        unused_grants: grants.iter().filter(is_unused).map(|grant| render::format_grant(grant)).collect(),
        update: None,
        newer: None,
        is_forbidden: refused.is_some(),
        refused: refused.map(|error| error.to_string()),
    }
}

/// Counts the calls of each component in the log; `None` if there is no log.
fn read_uses(config: &Config) -> Result<Option<BTreeMap<String, Use>>> {
    let place = log_place::locate(None, config)?;
    if config.log.off || place.is_missing() {
        return Ok(None);
    }
    let reader: Reader = log_place::open_read_only(&place, &log_place::options(&place, None, config)?)?;
    let newest = Filter {
        kind: Some(RecordKind::ToolFinished),
        limit: Some(MAX_CALLS),
        order: Order::Descending,
        ..Filter::default()
    };
    let mut uses: BTreeMap<String, Use> = BTreeMap::new();
    for row in reader.query(&newest)? {
        let Some((component, _)) = row.record.tool.as_deref().and_then(QualifiedName::split) else { continue };
        let used = uses.entry(component.to_owned()).or_default();
        used.calls += 1;
        used.has_requests |= row.record.body.get("requests").is_some();
    }
    Ok(Some(uses))
}

fn print(row: &Row) -> Result<()> {
    let mut quotation = Quotation::new(true);
    let (mark, state) = match (&row.refused, row.is_approved) {
        (Some(_), _) => (styled(BAD, "✗"), "is refused"),
        (None, true) => (styled(GOOD, "✓"), "is approved"),
        (None, false) => (styled(BAD, "!"), "is not approved"),
    };
    line(&format!("{mark} {} {state}", styled(STRONG, &row.name)))?;
    quotation.write_labelled("  from       ", &row.place)?;
    if let Some(reason) = &row.refused {
        quotation.write_labelled("  refused    ", reason)?;
    }
    if let Some(signer) = &row.signer {
        quotation.write_fact("  signed by  ", signer)?;
    }
    if let Some(time) = &row.signed_at {
        quotation.write_labelled("  signed at  ", time)?;
    }
    if let Some(calls) = row.calls {
        quotation.write_fact("  calls      ", &calls.to_string())?;
    }
    let unused: BTreeSet<&String> = row.unused_grants.iter().collect();
    unused.into_iter().try_for_each(|grant| quotation.write_labelled("  never used ", grant))?;
    if let Some(update) = &row.update {
        quotation.write_labelled("  update     ", update)?;
    }
    match &row.newer {
        Some(newer) => quotation.write_labelled("  newer      ", newer),
        None => Ok(()),
    }
}
