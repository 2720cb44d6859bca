//! The report of a publication, before and after it is sent.

use anyhow::Result;
use fumehood::Digest;
use fumehood::limits::display_bytes;
use fumehood_registry::artifact::{CONFIG_MEDIA_TYPE, LAYER_MEDIA_TYPE};
use fumehood_registry::metadata::SBOM_MEDIA_TYPE;
use fumehood_registry::publish::PublishReport;
use fumehood_registry::reference::{OciReference, Reference};
use fumehood_registry::signature::BUNDLE_MEDIA_TYPE;
use serde_json::{Value, json};

use super::{PreparedPublication, SERVER_FILE, Signer};
use crate::args::Arguments;
use crate::flags::quoted;
use crate::render;
use crate::signing_key::KeyFiles;

/// Prints everything that would be sent.
pub(super) fn dry_run(arguments: &Arguments, reference: &OciReference, prepared: &PreparedPublication) -> Result<()> {
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
        let parts = parts.iter().filter_map(|(name, bytes, media_type)| {
            let bytes = (*bytes)?;
            let digest = Digest::of(bytes).to_string();
            Some(json!({ "part": name, "digest": digest, "bytes": bytes.len(), "mediaType": media_type }))
        });
        return render::json(&json!({
            "reference": reference.to_string(),
            "file": prepared.file.display().to_string(),
            "dry_run": true,
            "parts": parts.collect::<Vec<_>>(),
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
        (Some(statement), Some(Signer { key, .. })) => {
            document(&format!("statement, signed with {} ({})", key.id(), key.algorithm()), statement)?;
        }
        _ => heading(&format!("not signed; {}", signing_advice()))?,
    }
    if let Some(package) = &prepared.mcp {
        heading(&format!("{} ({})", package.bundle_name, display_bytes(package.bundle.len() as u64)))?;
        document(SERVER_FILE, &serde_json::from_str(&package.server)?)?;
    }
    line("next: the same without --dry-run")
}

/// Prints what was sent.
pub(super) fn published(
    arguments: &Arguments,
    prepared: &PreparedPublication,
    published: &PublishReport,
) -> Result<()> {
    let size = prepared.publication.artifact().component().len() as u64;
    let next = match &prepared.signer {
        Some(Signer { file, .. }) if file.is_file() => {
            format!("fumehood add {} --key {}", published.reference, quoted(&file.display().to_string()))
        }
        _ => format!("fumehood add {}", published.reference),
    };
    if arguments.json {
        return render::json(&json!({
            "reference": published.reference.to_string(),
            "file": prepared.file.display().to_string(),
            "dry_run": false,
            "manifest": published.manifest.to_string(),
            "component": published.component.to_string(),
            "bytes": size,
            "annotations": prepared.publication.artifact().annotations(),
            "signer": prepared.signer.as_ref().map(signer_json),
            "signature": published.signature.map(|digest| digest.to_string()),
            "was_signed": published.was_signed,
            "inventory": published.sbom.map(|digest| digest.to_string()),
            "replaced": published.replaced.map(|digest| digest.to_string()),
            "mcp": mcp_json(prepared),
            "next": next,
            "readme": readme_block(prepared, published),
        }));
    }
    line(&format!("published {}", published.reference))?;
    line(&format!("  component  {} ({})", published.component, display_bytes(size)))?;
    if let Some(digest) = &published.replaced {
        line(&format!("  replaces   {digest}, which the tag named before"))?;
    }
    let provenance = &prepared.provenance;
    let origin = match (&provenance.source, &provenance.revision) {
        (Some(source), Some(revision)) => format!("{} at {}", &**source, &**revision),
        (Some(source), None) => format!("{}, without a revision", &**source),
        (None, Some(revision)) => format!("revision {}", &**revision),
        (None, None) => "not stated".to_owned(),
    };
    line(&format!("  source     {origin}"))?;
    match &prepared.signer {
        Some(Signer { key, .. }) => {
            let before = if published.was_signed { ", unchanged" } else { "" };
            line(&format!("  signed by  {} ({}){before}", key.id(), key.algorithm()))?;
        }
        None => render::warning(&format!(
            "it is not signed, so others must allow unsigned components to use it; {}",
            signing_advice()
        )),
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
    line(&format!("next: {next}"))?;
    heading("for the README of the tool:")?;
    line("")?;
    readme_block(prepared, published).lines().try_for_each(line)
}

/// Returns Markdown for people who want to use the tool: what they add to their configuration, and what it is identified by.
fn readme_block(prepared: &PreparedPublication, published: &PublishReport) -> String {
    let reference = &published.reference;
    let name = fumehood::default_component_name(&Reference::Oci(reference.clone()));
    let trusted = prepared.signer.as_ref().map(|Signer { key, .. }| {
        format!("[registry.trusted]\n\"{}\" = [\"{}\"]\n\n", reference.name(), String::from(key.clone()))
    });
    let signed = prepared.signer.as_ref().map(|Signer { key, .. }| format!(", signed with the key `{}`", key.id()));
    format!(
        "## Use with Fumehood\n\nAdd to `fumehood.toml`, and run `fumehood approve {name}`:\n\n```toml\n{}[tools.{name}]\n\
         reference = \"{reference}\"\n```\n\nComponent `{}`{}.\n",
        trusted.unwrap_or_default(),
        published.component,
        signed.unwrap_or_default(),
    )
}

fn mcp_json(prepared: &PreparedPublication) -> Option<Value> {
    let package = prepared.mcp.as_ref()?;
    let folder = prepared.mcp_folder();
    let path = |name: &str| folder.join(name).display().to_string();
    Some(json!({ "bundle": path(&package.bundle_name), "server": path(SERVER_FILE) }))
}

/// Returns how to sign the component: publishing it again adds the signature.
fn signing_advice() -> String {
    match KeyFiles::list().unwrap_or_default().first() {
        Some(key) => format!("run this again with `--sign {}`", key.name),
        None => "create a key with `fumehood key new`, and run this again with `--sign default`".to_owned(),
    }
}

fn signer_json(Signer { key, .. }: &Signer) -> Value {
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
