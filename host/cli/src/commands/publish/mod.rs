//! `fumehood publish`: sends a component to a registry, with its signature and its inventory.

mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use fumehood::read_wishes;
use fumehood::settings::Wishes;
use fumehood_author::Project;
use fumehood_author::mcp_package::{McpPackage, ServerInfo};
use fumehood_registry::http::UploadObserver;
use fumehood_registry::publish::Publication;
use fumehood_registry::signature::{Provenance, PublicKey};
use fumehood_registry::version::version_of_tag;

use super::index::replace;
use crate::args::{self, Arguments};
use crate::exit::{Exit, UsageError};
use crate::registry::{registry_client, transfer_bar};
use crate::signing_key::KeyFiles;
use crate::{published, render};

/// Prefix of the names of annotations that the OCI image specification defines.
const OCI_PREFIX: &str = "org.opencontainers.image.";
/// The name of the file for the MCP registry.
const SERVER_FILE: &str = "server.json";

/// A publication before anything is sent.
struct PreparedPublication {
    publication: Publication,
    /// The key that signed it.
    signer: Option<Signer>,
    provenance: Provenance,
    file: PathBuf,
    /// The package for MCP clients, if one was asked for.
    mcp: Option<McpPackage>,
}

/// The key that signed a publication.
struct Signer {
    key: PublicKey,
    /// The file of the public key.
    file: PathBuf,
}

impl PreparedPublication {
    /// Returns the folder that the package for MCP clients goes to.
    fn mcp_folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new(""))
    }
}

pub(crate) async fn run(arguments: &Arguments, options: &args::Publish) -> Result<Exit> {
    let prepared = prepare(options)?;
    if let Some(warning) = version_warning(options, prepared.publication.artifact().annotations()) {
        render::warning(&warning);
    }
    if options.dry_run {
        report::dry_run(arguments, &options.reference, &prepared)?;
        return Ok(Exit::Ok);
    }
    let settings = options.registry.apply(published::configured_settings(arguments)?, Some(options.reference.host()));
    let client = registry_client(&settings)?;
    let bar = transfer_bar(options.reference.repository());
    bar.set_length(prepared.publication.artifact().component().len() as u64);
    let observer = {
        let bar = bar.clone();
        UploadObserver::new(move |sent| bar.set_position(sent))
    };
    let published = prepared.publication.publish_with(&client, &observer).await;
    bar.finish_and_clear();
    let published = published?;
    if let Some(package) = &prepared.mcp {
        let folder = prepared.mcp_folder();
        replace(&folder.join(&package.bundle_name), &package.bundle)?;
        replace(&folder.join(SERVER_FILE), package.server.as_bytes())?;
    }
    report::published(arguments, &prepared, &published)?;
    Ok(Exit::Ok)
}

/// Reads the component and signs it.
fn prepare(options: &args::Publish) -> Result<PreparedPublication> {
    let file = match &options.file {
        Some(file) => file.clone(),
        None => Project::open(&options.project)?.built_component()?,
    };
    let component = match std::fs::read(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(UsageError(format!("no such file {}; expected a `.wasm` file", file.display())).into());
        }
        read => read.with_context(|| format!("cannot read {}", file.display()))?,
    };
    let annotations: BTreeMap<String, String> = options.annotation.iter().cloned().collect();
    let component = bytes::Bytes::from(component);
    let mut publication = Publication::new(options.reference.clone(), component.clone(), annotations)?;
    if options.replace {
        publication = publication.replace();
    }
    let provenance = provenance(options, publication.artifact().annotations());
    let mcp = if options.mcp.mcp {
        let info = server_info(options, publication.artifact().annotations());
        Some(McpPackage::new(&component, &ServerInfo { wishes: wishes_of(&component)?, ..info })?)
    } else {
        None
    };
    let Some(name) = &options.sign else {
        return Ok(PreparedPublication { publication, signer: None, provenance, file, mcp });
    };
    let files = KeyFiles::find(name)?;
    let key = files.open(&options.passphrase)?;
    let publication = publication.sign(&key, provenance.clone())?;
    let signer = Signer { key: key.public().clone(), file: files.public };
    Ok(PreparedPublication { publication, signer: Some(signer), provenance, file, mcp })
}

fn wishes_of(component: &[u8]) -> Result<Wishes, UsageError> {
    let wishes = read_wishes(component).map(|text| Wishes::from_section(&text)).transpose();
    let wishes = wishes.map_err(|error| UsageError(format!("the wishes of the component are not valid: {error}")))?;
    Ok(wishes.unwrap_or_default())
}

/// Returns the origin of the component: what its metadata say, and what built it.
fn provenance(options: &args::Publish, annotations: &BTreeMap<String, String>) -> Provenance {
    let annotation = |name: &str| annotations.get(&format!("{OCI_PREFIX}{name}")).map(|value| value.as_str().into());
    let builder = options.builder.clone().or_else(|| workflow(&|name| std::env::var(name).ok()));
    Provenance {
        source: annotation("source"),
        revision: annotation("revision"),
        builder: builder.map(Into::into),
        signed_at: Some(humantime::format_rfc3339_seconds(SystemTime::now()).to_string().into()),
    }
}

/// Returns the description of the component for MCP clients.
fn server_info(options: &args::Publish, annotations: &BTreeMap<String, String>) -> ServerInfo {
    let annotation = |name: &str| annotations.get(&format!("{OCI_PREFIX}{name}")).cloned();
    let last = options.reference.repository().rsplit('/').next().unwrap_or_default();
    // `latest` is no version, says the schema.
    let tag = options.reference.tag().filter(|tag| *tag != "latest").map(str::to_owned);
    ServerInfo {
        title: annotation("title").unwrap_or_else(|| last.to_owned()),
        version: annotation("version").or(tag),
        description: annotation("description"),
        authors: annotation("authors"),
        license: annotation("licenses"),
        repository: annotation("source"),
        homepage: annotation("url"),
        server_name: options.mcp.mcp_name.clone(),
        bundle_url: options.mcp.mcp_url.clone(),
        wishes: Wishes::default(),
    }
}

/// Returns the URI of the workflow that this process runs in, in GitHub Actions.
fn workflow(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let server = variable("GITHUB_SERVER_URL")?;
    let workflow = variable("GITHUB_WORKFLOW_REF")?;
    Some(format!("{}/{workflow}", server.trim_end_matches('/')))
}

/// Returns a warning if the tag is the version of another component.
fn version_warning(options: &args::Publish, annotations: &BTreeMap<String, String>) -> Option<String> {
    let version = annotations.get(&format!("{OCI_PREFIX}version"))?;
    let tag = options.reference.tag()?;
    let tagged = version_of_tag(tag)?;
    (version_of_tag(version) != Some(tagged)).then(|| {
        format!(
            "the version in the component is {version}, but the tag is {tag}; people who look for one version get \
                 the other"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_workflow_as_the_builder() {
        let variable = |name: &str| match name {
            "GITHUB_SERVER_URL" => Some("https://github.com/".to_owned()),
            "GITHUB_WORKFLOW_REF" => Some("acme/tool/.github/workflows/ci.yml@refs/tags/v1".to_owned()),
            _ => None,
        };
        let expected = "https://github.com/acme/tool/.github/workflows/ci.yml@refs/tags/v1";
        assert_eq!(workflow(&variable).as_deref(), Some(expected));
        assert_eq!(workflow(&|_| None), None);
    }
}
