//! Components of registries as sources of loads: fetched, verified, and kept in a local store.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use fumehood_core::digest::Digest;
use fumehood_core::policy::approval::Origin;
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::time::Timestamp;
use fumehood_registry::client::{Progress, RegistryClient};
use fumehood_registry::fetch::{
    FetchError, FetchedComponent, NewerVersion, fetch, fetch_offline, fetch_url, fetch_url_offline, newer_version,
};
use fumehood_registry::policy::{Policy, Trust};
use fumehood_registry::reference::{OciReference, Reference, UrlReference};
use fumehood_registry::signature::Provenance;
use fumehood_registry::store::Store;

use super::loaded_component::name_of_file;

/// Number of components from which on several threads verify them.
const MIN_PARALLEL: usize = 4;

/// The way to components in registries: the store that they are kept in, the operator's policy, and a client. Without a
/// client, only what is in the store can be loaded.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use fumehood::registry::{client::RegistryClient, policy::Policy, reference::Reference, store::Store};
/// use fumehood::{Host, Load, RegistrySource};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let policy = Policy::new().trusted_keys([std::fs::read_to_string("acme.pem")?.parse()?]);
/// let source = RegistrySource::new(Store::open("/var/lib/tools")?, policy).client(RegistryClient::builder().build()?);
/// let reference: Reference = "oci://ghcr.io/acme/greeter:1.0".parse()?;
/// let host = Host::builder().build()?;
/// host.load(Load::reference(reference, Arc::new(source))).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RegistrySource {
    store: Store,
    policy: Policy,
    client: Option<RegistryClient>,
}

/// A component in the store that the policy accepts.
#[derive(Debug, Clone)]
pub struct StoredComponent {
    /// The file. Its bytes are compared with `digest` when it is loaded.
    pub path: PathBuf,
    /// The digest of the component's bytes.
    pub digest: Digest,
    /// The reference, with its digest.
    pub reference: Reference,
    /// The result of the rule about signatures; `None` for a URL, whose digest says which bytes are meant.
    pub trust: Option<Trust>,
    bytes: u64,
}

impl RegistrySource {
    /// Creates a source that uses no network.
    #[must_use]
    pub fn new(store: Store, policy: Policy) -> Self {
        Self { store, policy, client: None }
    }

    /// Sets the client by which registries are asked.
    #[must_use]
    pub fn client(mut self, client: RegistryClient) -> Self {
        self.client = Some(client);
        self
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Gets a component. A tag is resolved by its registry if there is a client; what has a digest is taken from the store if it
    /// is there. A client needs a runtime of tokio.
    ///
    /// # Errors
    /// If it cannot be had, or the policy refuses it.
    pub async fn get(
        &self,
        reference: &Reference,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<StoredComponent, FetchError> {
        let Some(client) = &self.client else { return self.stored(reference) };
        match reference {
            Reference::Oci(oci) => {
                let fetched = fetch(client, &self.store, &self.policy, oci, now(), progress).await?;
                Ok(from_registry(fetched))
            }
            Reference::Url(url) => {
                fetch_url(client, &self.store, &self.policy, url, progress).await?;
                self.stored(reference)
            }
            _ => self.stored(reference),
        }
    }

    /// Looks for a higher version that the policy accepts: see [`newer_version`]. Without a client there is none.
    ///
    /// # Errors
    /// If the registry does not list its tags, or the policy refuses the name.
    pub async fn newer_version(&self, reference: &OciReference) -> Result<Option<NewerVersion>, FetchError> {
        match &self.client {
            Some(client) => newer_version(client, &self.policy, reference, now()).await,
            None => Ok(None),
        }
    }

    /// Gets a component from the store, and verifies it again. A tag stands for what was pulled last under it.
    ///
    /// # Errors
    /// If it is not there, or the policy refuses it.
    pub fn stored(&self, reference: &Reference) -> Result<StoredComponent, FetchError> {
        match reference {
            Reference::Oci(oci) => self.stored_oci(oci),
            Reference::Url(url) => self.stored_url(url),
            other => Err(FetchError::NotPublished(other.to_string())),
        }
    }

    /// Like [`Self::stored`] for many components, verified on several threads: each costs a signature and some reads. The
    /// results are in the order of the references.
    ///
    /// ```no_run
    /// use fumehood::registry::reference::Reference;
    /// use fumehood::{Host, Load, RegistrySource};
    ///
    /// # async fn example(host: Host, source: RegistrySource, references: &[Reference]) -> Result<(), Box<dyn std::error::Error>> {
    /// for component in source.stored_all(references) {
    ///     host.load(Load::stored(&component?)).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn stored_all(&self, references: &[Reference]) -> Vec<Result<StoredComponent, FetchError>> {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let verify = |piece: &[Reference]| piece.iter().map(|reference| self.stored(reference)).collect::<Vec<_>>();
        if references.len() < MIN_PARALLEL || threads < 2 {
            return verify(references);
        }
        std::thread::scope(|scope| {
            let pieces = references.chunks(references.len().div_ceil(threads));
            let started: Vec<_> = pieces.map(|piece| (piece, scope.spawn(move || verify(piece)))).collect();
            // A thread that cannot be joined has panicked; its part is verified here again.
            started.into_iter().flat_map(|(piece, thread)| thread.join().unwrap_or_else(|_| verify(piece))).collect()
        })
    }

    fn stored_oci(&self, reference: &OciReference) -> Result<StoredComponent, FetchError> {
        fetch_offline(&self.store, &self.policy, reference, now()).map(from_registry)
    }

    fn stored_url(&self, url: &UrlReference) -> Result<StoredComponent, FetchError> {
        let bytes = fetch_url_offline(&self.store, &self.policy, url)?;
        let path = self.store.blob_path(url.digest());
        let digest = *url.digest();
        Ok(StoredComponent { path, digest, reference: Reference::Url(url.clone()), trust: None, bytes })
    }
}

impl StoredComponent {
    /// Returns the part of an approval that says where the component comes from. Its imports are not known before it is
    /// loaded.
    #[must_use]
    pub fn origin(&self) -> Origin {
        let verified = match &self.trust {
            Some(Trust::Verified(verified)) => Some(verified),
            _ => None,
        };
        Origin {
            reference: self.reference.to_string().into(),
            bytes: self.bytes,
            signer: verified.map(|verified| verified.key.to_string().into()),
            provenance: verified.map(|verified| provenance_lines(&verified.claim.provenance)).unwrap_or_default(),
            imports: Vec::new(),
        }
    }
}

/// Returns the name that the component of a reference has by default: the last part of its repository, or its file name at a
/// URL, with dashes in place of characters that no name has.
#[must_use]
pub fn default_component_name(reference: &Reference) -> String {
    let last = match reference {
        // Repositories may have dots, which are no file extensions.
        Reference::Oci(oci) => oci.repository().rsplit('/').next().unwrap_or_default().replace('.', "-"),
        Reference::Url(url) => {
            url.url().path_segments().and_then(|mut parts| parts.next_back()).unwrap_or("").to_owned()
        }
        other => other.to_string(),
    };
    name_of_file(Path::new(&last))
}

fn from_registry(fetched: FetchedComponent) -> StoredComponent {
    StoredComponent {
        path: fetched.path,
        digest: fetched.component,
        reference: Reference::Oci(fetched.reference),
        trust: Some(fetched.trust),
        bytes: fetched.component_bytes,
    }
}

/// Returns what a signer states about a component, one line for each statement.
fn provenance_lines(provenance: &Provenance) -> Vec<PrintableText> {
    let Provenance { source, revision, builder, signed_at } = provenance;
    let named = [("source", source), ("revision", revision), ("builder", builder), ("signed at", signed_at)];
    named.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", value.as_ref()?).into())).collect()
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
