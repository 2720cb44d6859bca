//! Arguments of `fumehood publish`, and options for connections to registries.

use std::path::PathBuf;

use clap::Args;
use fumehood_registry::reference::OciReference;

use super::key::PassphraseArguments;
use crate::config::registry::RegistrySection;

#[derive(Debug, Args)]
pub(crate) struct Publish {
    /// Name and version in a registry, such as `oci://ghcr.io/acme/city-facts:1.0.0`
    #[arg(value_name = "REFERENCE")]
    pub(crate) reference: OciReference,

    /// Component to publish [default: the project's own]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Folder of the project
    #[arg(long, value_name = "FOLDER", default_value = ".", conflicts_with = "file")]
    pub(crate) project: PathBuf,

    /// Key to sign with: the name of your key, or a file
    #[arg(long, value_name = "KEY")]
    pub(crate) sign: Option<String>,

    #[command(flatten)]
    pub(crate) passphrase: PassphraseArguments,

    /// URI of the builder, for the provenance [default in GitHub Actions: the workflow]
    #[arg(long, value_name = "URI", requires = "sign")]
    pub(crate) builder: Option<String>,

    /// Annotation of the manifest, in addition to the component's metadata; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_annotation)]
    pub(crate) annotation: Vec<(String, String)>,

    /// Replace another component that was published with the same version
    #[arg(long)]
    pub(crate) replace: bool,

    /// Show everything that would be sent, without sending it
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) mcp: McpArguments,

    #[command(flatten)]
    pub(crate) registry: RegistryArguments,
}

/// The package for MCP clients.
#[derive(Debug, Args)]
#[command(next_help_heading = "MCP")]
pub(crate) struct McpArguments {
    /// Write a bundle for MCP clients (`.mcpb`) and its entry for the MCP registry (`server.json`) next to the
    /// component
    #[arg(long)]
    pub(crate) mcp: bool,

    /// Name in the MCP registry, such as `io.github.acme/city-facts` [default: from the GitHub repository]
    #[arg(long, value_name = "NAME", requires = "mcp")]
    pub(crate) mcp_name: Option<String>,

    /// Download URL of the bundle [default: the GitHub release of this version]
    #[arg(long, value_name = "URL", requires = "mcp")]
    pub(crate) mcp_url: Option<String>,
}

/// The way to registries.
#[derive(Debug, Args)]
#[command(next_help_heading = "Registries")]
pub(crate) struct RegistryArguments {
    /// Registry to contact over plain HTTP, such as `registry.lan:5000`; repeatable [default: registries on this
    /// machine]
    #[arg(long, value_name = "HOST")]
    pub(crate) plain_http: Vec<String>,

    /// PEM file with root certificates, in addition to the system's; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_root: Vec<PathBuf>,
}

impl RegistryArguments {
    /// Adds these options to settings. With a root certificate, the registry `host` is asked over TLS wherever it is.
    pub(crate) fn apply(&self, mut settings: RegistrySection, host: Option<&str>) -> RegistrySection {
        settings.plain_http.extend(self.plain_http.iter().cloned());
        if !self.tls_root.is_empty() {
            let host = host.filter(|host| !self.plain_http.iter().any(|plain| plain.eq_ignore_ascii_case(host)));
            settings.https.extend(host.map(str::to_owned));
        }
        settings.tls_roots.extend(self.tls_root.iter().cloned());
        settings
    }
}

fn parse_annotation(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, such as org.opencontainers.image.vendor=Acme".to_owned()),
    }
}
