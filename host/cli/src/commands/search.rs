//! `fumehood search`: looks for tools in signed indexes.

use std::path::Path;

use anyhow::{Context as _, Result};
use fumehood_registry::index::{Index, MAX_INDEX_BYTES, Match};
use fumehood_registry::index_history::IndexHistory;
use fumehood_registry::signature::{KeyId, PublicKey};
use serde_json::{Value, json};

use super::index::index_name;
use crate::app::App;
use crate::args::{self, Arguments};
use crate::config::Config;
use crate::exit::{Exit, UsageError};
use crate::registry::registry_client;
use crate::signing_key::read_public_key;
use crate::{published, render, user_folders};

/// An index whose signature was verified.
struct OpenedIndex {
    name: String,
    key: KeyId,
    index: Index,
}

/// Runs the command. Nothing is searched unless every index is what its key signed, and none is older than one that was read
/// before from the same place.
pub(crate) async fn run(arguments: &Arguments, search: &args::Search) -> Result<Exit> {
    let config = App::open_where(arguments, published::is_configured)?.config;
    let history = IndexHistory::open(user_folders::index_history()?)?;
    let mut indexes = Vec::new();
    if search.index.is_empty() {
        for (name, section) in &config.registry.indexes {
            let keys = published::keys(&config, &section.keys)?;
            let (place, bytes) = match (&section.url, &section.file) {
                (Some(url), _) => (url.clone(), read_url(arguments, search, &config, url).await?),
                (None, Some(file)) => (absolute(&config.path(file)), read_file(&config.path(file))?),
                (None, None) => continue,
            };
            indexes.push(open(&bytes, name, &keys, &history, &place)?);
        }
        if indexes.is_empty() {
            let message = "no index is configured; name one with `--index`, or in [registry.indexes] of fumehood.toml";
            return Err(UsageError(message.to_owned()).into());
        }
    }
    let keys = search.index_key.iter().map(|key| read_public_key(key)).collect::<Result<Vec<_>>>()?;
    for place in &search.index {
        let name = index_name(place)?;
        let (place, bytes) = if place.contains("://") {
            (place.clone(), read_url(arguments, search, &config, place).await?)
        } else {
            (absolute(Path::new(place)), read_file(Path::new(place))?)
        };
        indexes.push(open(&bytes, &name, &keys, &history, &place)?);
    }
    let words = search.words.join(" ");
    let mut found: Vec<(&OpenedIndex, Match<'_>)> = Vec::new();
    for opened in &indexes {
        found.extend(opened.index.search(&words).into_iter().map(|found| (opened, found)));
    }
    found.sort_by(|(_, a), (_, b)| (b.score, &a.entry.reference).cmp(&(a.score, &b.entry.reference)));
    if arguments.json {
        render::json(&found.iter().map(|(opened, found)| to_json(opened, found)).collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    if found.is_empty() {
        let count: usize = indexes.iter().map(|opened| opened.index.entries.len()).sum();
        render::note(&format!("none of {count} components has all of these words: {words}"));
    }
    for (opened, found) in &found {
        print(opened, found)?;
    }
    Ok(Exit::Ok)
}

async fn read_url(arguments: &Arguments, search: &args::Search, config: &Config, url: &str) -> Result<Vec<u8>> {
    published::require_network(arguments)?;
    let client = registry_client(&search.registry.apply(published::settings(config), None))?;
    Ok(client.read_url(url, MAX_INDEX_BYTES as u64).await?)
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    let reading = || format!("cannot read the index {}", path.display());
    let size = std::fs::metadata(path).with_context(reading)?.len();
    if size > MAX_INDEX_BYTES as u64 {
        let message = format!("{} has {size} bytes; an index has at most {MAX_INDEX_BYTES}", path.display());
        return Err(UsageError(message).into());
    }
    std::fs::read(path).with_context(reading)
}

/// Returns the path of a file as the history knows it.
fn absolute(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn open(bytes: &[u8], name: &str, keys: &[PublicKey], history: &IndexHistory, place: &str) -> Result<OpenedIndex> {
    let (index, key) = Index::open(bytes, name, keys)?;
    let trusted: Vec<KeyId> = keys.iter().map(PublicKey::id).collect();
    history.check_among(place, key, &trusted, &index)?;
    Ok(OpenedIndex { name: name.to_owned(), key, index })
}

fn print(opened: &OpenedIndex, found: &Match<'_>) -> Result<()> {
    let entry = found.entry;
    let mut lines = vec![format!("{} · {}", entry.title, entry.reference)];
    if !entry.description.is_empty() {
        lines.push(format!("  {}", first_line(&entry.description)));
    }
    for tool in &found.tools {
        lines.push(format!("  {}: {}", tool.name, first_line(&tool.description)));
    }
    let signer = match entry.signers.as_slice() {
        [] => "not signed".to_owned(),
        signers => format!("signed by {}", signers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    };
    lines.push(format!("  {signer}, says the index `{}`", opened.name));
    lines.push(format!("  fumehood add {}", entry.reference));
    lines.iter().try_for_each(|line| render::line(line))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn to_json(opened: &OpenedIndex, found: &Match<'_>) -> Value {
    let entry = found.entry;
    let tools = found.tools.iter().map(|tool| json!({ "name": &*tool.name, "description": &*tool.description }));
    json!({
        "reference": entry.reference.to_string(),
        "component": entry.component.to_string(),
        "title": &*entry.title,
        "description": &*entry.description,
        "signers": entry.signers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "tools": tools.collect::<Vec<_>>(),
        "score": found.score,
        "index": opened.name,
        "indexSigner": opened.key.to_string(),
    })
}
