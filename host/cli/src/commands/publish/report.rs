//! The report of a publication, before and after it is sent.

use anyhow::Result;
use fumehood::Digest;
use fumehood::limits::display_bytes;
use fumehood_registry::artifact::{CONFIG_MEDIA_TYPE, LAYER_MEDIA_TYPE};
use fumehood_registry::metadata::SBOM_MEDIA_TYPE;
use fumehood_registry::publish::Published;
use fumehood_registry::reference::OciReference;
use fumehood_registry::signature::{BUNDLE_MEDIA_TYPE, PublicKey};
use serde_json::{Value, json};

use super::{Prepared, SERVER_FILE};
use crate::args::Arguments;
use crate::render;

/// Prints everything that would be sent.
pub(super) fn dry_run(arguments: &Arguments, reference: &OciReference, prepared: &Prepared) -> Result<()> {
    let publication = &prepared.publication;
    let artifact = publication.artifact();
    let parts = [
        ("manifest", Some(artifact.manifest()), "application/vnd.oci.image.manifest.v1+json"),
        ("config", Some(artifact.config()), CONFIG_MEDIA_TYPE),
        ("layer", Some(artifact.component()), LAYER_MEDIA_TYPE),
        ("inventory", publication.sbom(), SBOM_MEDIA_TYPE),
        ("signature", publication.bundle(), BUNDLE_MEDIA_TYPE),
    ];
    let manifest: Value = serde_json::from_slice(artifact.manifest())?;
    let config: Value = serde_json::from_slice(artifact.config())?;
    let statement = publication.statement();
    let statement: Option<Value> = statement.map(|statement| serde_json::from_slice(&statement)).transpose()?;
    if arguments.json {
        let part = |(name, bytes, media_type): &(&str, Option<&bytes::Bytes>, &str)| {
            let bytes = (*bytes)?;
            let digest = Digest::of(bytes).to_string();
            Some(json!({ "part": name, "digest": digest, "bytes": bytes.len(), "mediaType": media_type }))
        };
        return render::json(&json!({
            "reference": reference.to_string(),
            "file": prepared.file.display().to_string(),
            "dry_run": true,
            "parts": parts.iter().filter_map(part).collect::<Vec<_>>(),
            "annotations": artifact.annotations(),
            "manifest": manifest,
            "config": config,
            "signer": prepared.signer.as_ref().map(signer_json),
            "statement": statement,
            "mcp": mcp_json(prepared),
        }));
    }
    line(&format!("would publish {} as {reference}; nothing is sent", prepared.file.display()))?;
    for (name, bytes, media_type) in parts {
        match bytes {
            Some(bytes) => {
                let size = display_bytes(bytes.len() as u64);
                line(&format!("  {name:<10} {} {size:>9}  {media_type}", Digest::of(bytes)))?;
            }
            None => line(&format!("  {name:<10} none"))?,
        }
    }
    heading("annotations")?;
    for (name, value) in artifact.annotations() {
        line(&format!("  {name} = {value}"))?;
    }
    document("manifest", &manifest)?;
    document("config", &config)?;
    match (&statement, &prepared.signer) {
        (Some(statement), Some(signer)) => {
            document(&format!("statement, signed with {} ({})", signer.id(), signer.algorithm()), statement)?;
        }
        _ => heading("not signed; sign it with `--sign KEY`, and create a key with `fumehood key new`")?,
    }
    if let Some(package) = &prepared.mcp {
        heading(&format!("{} ({})", package.bundle_name, display_bytes(package.bundle.len() as u64)))?;
        document(SERVER_FILE, &serde_json::from_str(&package.server)?)?;
    }
    line("next: the same without --dry-run")
}

/// Prints what was sent.
pub(super) fn published(arguments: &Arguments, prepared: &Prepared, published: &Published) -> Result<()> {
    let size = prepared.publication.artifact().component().len() as u64;
    let next = format!("fumehood add {}", published.reference);
    if arguments.json {
        let digest = |digest: &Option<Digest>| digest.map(|digest| digest.to_string());
        return render::json(&json!({
            "reference": published.reference.to_string(),
            "file": prepared.file.display().to_string(),
            "dry_run": false,
            "manifest": published.manifest.to_string(),
            "component": published.component.to_string(),
            "bytes": size,
            "annotations": prepared.publication.artifact().annotations(),
            "signer": prepared.signer.as_ref().map(signer_json),
            "signature": digest(&published.signature),
            "was_signed": published.was_signed,
            "inventory": digest(&published.sbom),
            "mcp": mcp_json(prepared),
            "next": next,
        }));
    }
    line(&format!("published {}", published.reference))?;
    line(&format!("  component  {} ({})", published.component, display_bytes(size)))?;
    let provenance = &prepared.provenance;
    let origin = match (&provenance.source, &provenance.revision) {
        (Some(source), Some(revision)) => format!("{} at {}", &**source, &**revision),
        (Some(source), None) => format!("{}, without a revision", &**source),
        (None, Some(revision)) => format!("revision {}", &**revision),
        (None, None) => "not stated".to_owned(),
    };
    line(&format!("  source     {origin}"))?;
    match &prepared.signer {
        Some(signer) => {
            let before = if published.was_signed { ", unchanged" } else { "" };
            line(&format!("  signed by  {} ({}){before}", signer.id(), signer.algorithm()))?;
        }
        None => render::warning(
            "it is not signed, so others must allow unsigned components to use it; create a key with `fumehood key \
             new`, and sign with `--sign KEY`",
        ),
    }
    match &published.sbom {
        Some(digest) => line(&format!("  inventory  {digest}"))?,
        None => line("  inventory  none; `fumehood build` adds one to components in Rust")?,
    }
    if let Some(package) = &prepared.mcp {
        let folder = prepared.mcp_folder();
        line(&format!("  bundle     {}", folder.join(&package.bundle_name).display()))?;
        line(&format!("  registry   {}, for mcp-publisher", folder.join(SERVER_FILE).display()))?;
    }
    line(&format!("next: {next}"))
}

fn mcp_json(prepared: &Prepared) -> Option<Value> {
    let (package, folder) = (prepared.mcp.as_ref()?, prepared.mcp_folder());
    let path = |name: &str| folder.join(name).display().to_string();
    Some(json!({ "bundle": path(&package.bundle_name), "server": path(SERVER_FILE) }))
}

fn signer_json(key: &PublicKey) -> Value {
    json!({ "id": key.id().to_string(), "algorithm": key.algorithm() })
}

fn heading(text: &str) -> Result<()> {
    line("")?;
    line(text)
}

fn document(title: &str, value: &Value) -> Result<()> {
    heading(title)?;
    let text = serde_json::to_string_pretty(value)?;
    text.lines().try_for_each(|text| line(&format!("  {text}")))
}

/// Prints a line whose texts come from a component or a project.
fn line(text: &str) -> Result<()> {
    render::line(text)
}
