//! `fumehood index build`: lists published components in one signed file.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use fumehood::limits::display_bytes;
use fumehood::sanitize::truncate_str;
use fumehood::time::Timestamp;
use fumehood::{Load, PrintableText, ToolDefinition};
use fumehood_registry::client::{Progress, RegistryClient};
use fumehood_registry::fetch::{FetchedComponent, fetch};
use fumehood_registry::index::{Index, IndexEntry, IndexTool, MAX_TEXT_BYTES};
use fumehood_registry::policy::{Policy, SignatureRule, Trust};
use fumehood_registry::reference::OciReference;
use fumehood_registry::signature::PublicKey;
use fumehood_registry::store::Store;

use crate::args::{self, Arguments};
use crate::exit::{Exit, UsageError};
use crate::registry::{registry_client, transfer_bar};
use crate::signing_key::{KeyFiles, read_public_key};
use crate::{host, published, render};

pub(crate) async fn run(arguments: &Arguments, index: &args::Index) -> Result<Exit> {
    let args::Index::Build(build) = index;
    let name = index_name(&build.out.display().to_string())?;
    let key = KeyFiles::find(&build.sign)?.open(&build.passphrase)?;
    let mut trusted = build.trust.iter().map(|key| read_public_key(key)).collect::<Result<Vec<_>>>()?;
    if trusted.is_empty() {
        trusted.push(key.public().clone());
    }
    let host = build.references.first().map(OciReference::host);
    let client = registry_client(&build.registry.apply(published::configured_settings(arguments)?, host))?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let store = Store::open(folder.path().join("store"))?;
    let mut entries = Vec::new();
    for reference in &build.references {
        entries.push(entry(arguments, build, reference, &client, &store, &trusted).await?);
    }
    let built = Index::build(name.clone(), now(), entries)?;
    let file = built.sign(&key)?;
    replace(&build.out, file.as_bytes())?;
    report(arguments, build, &name, &built, &file, key.public())?;
    Ok(Exit::Ok)
}

/// Gets a component, looks at its tools in the sandbox, and describes it.
async fn entry(
    arguments: &Arguments,
    build: &args::BuildIndex,
    reference: &OciReference,
    client: &RegistryClient,
    store: &Store,
    trusted: &[PublicKey],
) -> Result<IndexEntry> {
    let rule = if build.allow_unsigned { SignatureRule::Warn } else { SignatureRule::Required };
    let policy = Policy::new().signatures(rule).trusted_keys(trusted.iter().cloned());
    let bar = transfer_bar(reference.repository());
    let mut progress = |progress: Progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.received);
    };
    let fetched = fetch(client, store, &policy, reference, now(), &mut progress).await;
    bar.finish_and_clear();
    let fetched = fetched?;
    let sandbox = host::builder(arguments).build()?;
    let load = Load::bytes("component", fetched.read(store)?);
    let component = host::load(&sandbox, &reference.to_string(), load).await?;
    Ok(describe(&fetched, component.definitions()))
}

fn describe(fetched: &FetchedComponent, definitions: &[ToolDefinition]) -> IndexEntry {
    let annotation = |name: &str| fetched.annotations.get(format!("org.opencontainers.image.{name}").as_str()).cloned();
    let last = fetched.reference.repository().rsplit('/').next().unwrap_or_default();
    let tool = |definition: &ToolDefinition| IndexTool {
        name: PrintableText::from(definition.name.as_str()),
        description: short(&definition.description.to_sanitized()),
        input_schema: PrintableText::from(definition.input_schema.to_sanitized().to_string()),
    };
    IndexEntry {
        component: fetched.component,
        title: annotation("title").map_or_else(|| last.into(), |title| short(&title)),
        description: annotation("description").map(|text| short(&text)).unwrap_or_default(),
        signers: match &fetched.trust {
            Trust::Verified(verified) => vec![verified.key],
            _ => Vec::new(),
        },
        tools: definitions.iter().map(tool).collect(),
        reference: fetched.reference.clone(),
    }
}

fn short(text: &str) -> PrintableText {
    truncate_str(text, MAX_TEXT_BYTES).into()
}

/// Returns the name of an index: that of its file or of the last part of its URL, without the extension.
pub(super) fn index_name(place: &str) -> Result<String, UsageError> {
    let last = place.rsplit(['/', std::path::MAIN_SEPARATOR]).next().unwrap_or_default();
    let name = last.split(['?', '#']).next().unwrap_or_default().trim_end_matches(".json");
    if name.is_empty() {
        Err(UsageError(format!("`{place}` has no file name for the index; expected a file such as tools.json")))
    } else {
        Ok(name.to_owned())
    }
}

/// Writes a file as a whole, in place of the one that may be there.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write as _;
    let failed = || format!("cannot write {}", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .permissions(fumehood_platform::private::readable_permissions())
        .tempfile_in(folder)
        .with_context(failed)?;
    file.write_all(bytes).with_context(failed)?;
    file.as_file().sync_all().with_context(failed)?;
    file.persist(path).with_context(failed)?;
    Ok(())
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn report(
    arguments: &Arguments,
    build: &args::BuildIndex,
    name: &str,
    index: &Index,
    file: &str,
    key: &PublicKey,
) -> Result<()> {
    let out = build.out.display().to_string();
    if arguments.json {
        let entries: BTreeMap<String, usize> =
            index.entries.iter().map(|entry| (entry.reference.to_string(), entry.tools.len())).collect();
        return render::json(&serde_json::json!({
            "index": name,
            "file": out,
            "bytes": file.len(),
            "signer": key.id().to_string(),
            "tools": entries,
        }));
    }
    for entry in &index.entries {
        let signed = if entry.signers.is_empty() { "not signed" } else { "signed" };
        let tools = match entry.tools.len() {
            1 => "1 tool".to_owned(),
            count => format!("{count} tools"),
        };
        render::line(&format!("  {} · {tools}, {signed}", entry.reference))?;
    }
    let size = display_bytes(file.len() as u64);
    render::line(&format!("wrote {out}, the index `{name}` ({size}), signed by {}", key.id()))?;
    render::line(&format!("next: fumehood search WORD --index {out} --index-key {}", build.sign))
}
