//! `fumehood store`: lists, verifies and prunes the store of components.

use std::collections::BTreeSet;

use anyhow::Result;
use comfy_table::Cell;
use fumehood::limits::display_bytes;
use fumehood::{Digest, Lock};
use fumehood_registry::reference::{OciReference, Reference, UrlReference};
use fumehood_registry::store::{Store, StoreRecord};
use serde::Serialize;

use crate::args::{self, Arguments};
use crate::config::Config;
use crate::configured;
use crate::exit::Exit;
use crate::render::{self, table};
use crate::{moment, user_folders};

/// A component in the store, for `--json`.
#[derive(Serialize)]
struct StoredRow<'a> {
    reference: &'a OciReference,
    component: Digest,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    signer: Option<String>,
    pulled_at: u64,
    /// True if the lock of this configuration names it.
    in_use: bool,
}

/// The outcome of `verify` and `prune`, for `--json`.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Damaged(Vec<String>),
    Removed { files: u64, bytes: u64, dry_run: bool },
}

pub(crate) fn run(arguments: &Arguments, command: &args::Store) -> Result<Exit> {
    let store = Store::open(user_folders::component_store()?)?;
    let origin = Config::place(arguments.config.as_deref());
    let lock = configured::open_lock_beside(&origin, arguments.accept_lock)?;
    match command {
        args::Store::List => list(arguments, &store, &lock),
        args::Store::Verify => verify(arguments, &store),
        args::Store::Prune { dry_run } => prune(arguments, &store, &lock, *dry_run),
    }
}

fn list(arguments: &Arguments, store: &Store, lock: &Lock) -> Result<Exit> {
    let (records, damaged) = store.list()?;
    let used = named_digests(lock);
    let is_used = |record: &StoreRecord| used.contains(&record.manifest);
    if arguments.json {
        let rows: Vec<_> = records
            .iter()
            .map(|record| StoredRow {
                reference: &record.reference,
                component: record.component,
                bytes: record.component_bytes,
                signer: record.verified.as_ref().map(|verified| verified.key.to_string()),
                pulled_at: record.pulled_at.0,
                in_use: is_used(record),
            })
            .collect();
        render::json(&rows)?;
    } else if records.is_empty() {
        render::note("the store is empty; add a component with `fumehood add`");
    } else {
        let mut table = table::new(&["REFERENCE", "MANIFEST", "SIZE", "SIGNER", "PULLED", "USED HERE"], &[2]);
        for record in &records {
            let signer = record.verified.as_ref().map(|verified| short(&verified.key.to_string()));
            table.add_row([
                Cell::new(without_digest(&record.reference)),
                Cell::new(short(&record.manifest.to_string())),
                Cell::new(display_bytes(record.component_bytes)),
                Cell::new(signer.unwrap_or_else(|| "nobody".to_owned())),
                Cell::new(moment::format_second(record.pulled_at)),
                Cell::new(if is_used(record) { "yes" } else { "no" }),
            ]);
        }
        table::print(table, 0, &[1, 4, 3])?;
    }
    damaged.iter().for_each(|error| render::warning(&error.to_string()));
    Ok(Exit::Ok)
}

fn verify(arguments: &Arguments, store: &Store) -> Result<Exit> {
    let damaged: Vec<String> = store.verify()?.iter().map(|error| crate::source::error_chain(error)).collect();
    if arguments.json {
        render::json(&Outcome::Damaged(damaged.clone()))?;
    } else if damaged.is_empty() {
        render::line("every component in the store matches its digest")?;
    } else {
        damaged.iter().try_for_each(|message| render::line(message))?;
    }
    Ok(if damaged.is_empty() { Exit::Ok } else { Exit::Tampered })
}

fn prune(arguments: &Arguments, store: &Store, lock: &Lock, dry_run: bool) -> Result<Exit> {
    let keep = named_digests(lock);
    let pruned = if dry_run { store.prunable(&keep)? } else { store.prune(&keep)? };
    if arguments.json {
        render::json(&Outcome::Removed { files: pruned.files, bytes: pruned.bytes, dry_run })?;
        return Ok(Exit::Ok);
    }
    let verb = if dry_run { "would be removed" } else { "were removed" };
    render::line(&format!("{} files with {} {verb}", pruned.files, display_bytes(pruned.bytes)))?;
    let lock = lock.path().display();
    render::note(&format!("kept: {} named by {lock}; locks in other folders were not read", keep.len()));
    Ok(Exit::Ok)
}

/// Returns the digests of manifests, and of components at URLs, that a lock names, approved or not.
fn named_digests(lock: &Lock) -> BTreeSet<Digest> {
    let entry = |name| lock.get(name).or_else(|| lock.proposal(name));
    let origins = lock.names().into_iter().filter_map(|name| entry(name)?.manifest().origin.as_ref());
    origins.filter_map(|origin| pinned_digest(&origin.reference.parse().ok()?)).collect()
}

fn pinned_digest(reference: &Reference) -> Option<Digest> {
    match reference {
        Reference::Oci(oci) => oci.digest().copied(),
        Reference::Url(url) => Some(*UrlReference::digest(url)),
        _ => None,
    }
}

/// Returns a reference without its digest, which has a column of its own.
fn without_digest(reference: &OciReference) -> String {
    reference.to_string().split('@').next().unwrap_or_default().to_owned()
}

/// Returns the beginning of a digest.
fn short(digest: &str) -> String {
    digest.chars().take("sha256:".len() + 12).collect()
}
