//! Debian's `docker-registry` on loopback with published components, for the tests of operators' commands.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use fumehood_registry::client::RegistryClient;
use fumehood_registry::publish::{Publication, PublishReport};
use fumehood_registry::signature::{Algorithm, Provenance, SigningKey};
use fumehood_tests::contract::{Answer, ToolDescription};
use fumehood_tests::docker_registry::{DockerRegistry, Settings};

use super::workbench::Workbench;

/// The key of a publisher.
pub(crate) static KEY: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::generate(Algorithm::P256).unwrap());
/// The key of somebody else.
pub(crate) static OTHER_KEY: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::generate(Algorithm::Ed25519).unwrap());

/// A registry that ends with the test.
pub(crate) struct Registry {
    _program: DockerRegistry,
    folder: tempfile::TempDir,
    pub(crate) host: String,
}

impl Registry {
    /// Starts the registry, or says that the test is skipped.
    pub(crate) fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let program = DockerRegistry::start(folder.path(), Settings::default()).unwrap()?;
        Some(Self { host: program.host().to_owned(), _program: program, folder })
    }

    /// Returns the reference of the test's component with this tag.
    pub(crate) fn reference(&self, tag: &str) -> String {
        format!("oci://{}/acme/greeter:{tag}", self.host)
    }

    /// Publishes a component under [`Self::reference`] that describes these tools and answers `hello`.
    pub(crate) fn publish(&self, tag: &str, tools: &[ToolDescription], key: Option<&SigningKey>) -> PublishReport {
        self.publish_component(tag, fumehood_tests::answering(tools, Answer::Text(b"hello")).unwrap(), key)
    }

    /// Publishes a component under a tag.
    pub(crate) fn publish_component(&self, tag: &str, component: Vec<u8>, key: Option<&SigningKey>) -> PublishReport {
        let reference = self.reference(tag).parse().unwrap();
        let publication = Publication::new(reference, component, BTreeMap::new()).unwrap();
        let provenance = Provenance {
            source: Some("https://example.com/acme/greeter".into()),
            signed_at: Some("2026-01-01T00:00:00Z".into()),
            ..Provenance::default()
        };
        let publication = match key {
            Some(key) => publication.sign(key, provenance).unwrap(),
            None => publication,
        };
        let client = RegistryClient::builder().build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(publication.publish(&client)).unwrap()
    }

    /// Returns the file in which the registry keeps the bytes with this digest.
    pub(crate) fn blob(&self, digest: &fumehood::Digest) -> PathBuf {
        let hex = digest.hex();
        let blobs = self.folder.path().join("storage/docker/registry/v2/blobs/sha256");
        blobs.join(&hex[..2]).join(hex).join("data")
    }
}

/// Returns a folder in which the publisher's key is trusted.
pub(crate) fn trusting_bench() -> Workbench {
    let bench = Workbench::new();
    let key = String::from(KEY.public().clone());
    bench.put("fumehood.toml", format!("# Ours.\n[registry]\ntrusted_keys = [\"{key}\"] # acme\n"));
    bench
}

/// Returns what was shown without line breaks and the signs before quoted lines.
pub(crate) fn unwrapped(shown: &str) -> String {
    shown.split_whitespace().filter(|word| !["│", "+", "-"].contains(word)).collect()
}

/// Returns the files of the store, incomplete ones included.
pub(crate) fn store_files(bench: &Workbench) -> Vec<PathBuf> {
    let folders = ["blobs", "records"].map(|name| bench.path("state/fumehood/store").join(name));
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}
