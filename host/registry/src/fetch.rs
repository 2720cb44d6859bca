//! Getting a component: resolve, verify, judge, download, and record, in this order. Nothing that the policy refuses is
//! downloaded, and what was fetched once is verified again from the store, without a network.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fumehood_core::digest::Digest;
use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::time::Timestamp;

use crate::artifact::{ComponentDescriptor, MAX_MANIFEST_BYTES, describe};
use crate::client::{Progress, RegistryClient, ResolvedComponent};
use crate::error::RegistryError;
use crate::policy::{Policy, PolicyError, SignatureRule, Trust};
use crate::reference::{OciReference, UrlReference};
use crate::signature::{BUNDLE_MEDIA_TYPE, MAX_BUNDLE_BYTES, SignatureError, VerifiedSignature, verify_reference};
use crate::store::{SignatureRecord, Store, StoreError, StoreRecord};
use crate::version::{newer_tags, version_of_tag};

/// Maximum number of higher versions that the policy is asked about.
const MAX_NEWER: usize = 3;

/// A component in the store that the policy accepts.
#[derive(Debug, Clone)]
pub struct FetchedComponent {
    /// The reference, with the digest of the manifest.
    pub reference: OciReference,
    /// The digest of the manifest: the identity of the component.
    pub manifest: Digest,
    /// The digest of the component's bytes.
    pub component: Digest,
    /// The size of the component, in bytes.
    pub component_bytes: u64,
    /// The file with the component. Whoever reads it compares its digest, as [`Self::read`] does.
    pub path: PathBuf,
    /// The result of the rule about signatures.
    pub trust: Trust,
    /// The annotations, which the publisher wrote.
    pub annotations: BTreeMap<PrintableText, PrintableText>,
}

impl FetchedComponent {
    /// Reads the component. Its digest, owner and mode are checked.
    ///
    /// # Errors
    /// If the file was changed, or cannot be read.
    pub fn read(&self, store: &Store) -> Result<Vec<u8>, FetchError> {
        let bytes = store.blob(&self.component, self.component_bytes)?;
        bytes.ok_or_else(|| FetchError::NotStored(Box::new(self.reference.clone())))
    }
}

/// A higher version of a component, which nothing was downloaded of.
#[derive(Debug)]
pub struct NewerVersion {
    /// The reference with the tag of that version.
    pub reference: OciReference,
    /// The reason if it cannot be used now, for example because the policy wants releases to be older.
    pub refused: Option<FetchError>,
}

/// An error of getting a component.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The registry does not send it.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The policy refuses it.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is not in the store, and the network may not be used.
    #[error("{0} is not in the store; download it without `--offline`")]
    NotStored(Box<OciReference>),
    /// The component of a URL is not in the store, and the network may not be used.
    #[error("{0} is not in the store; download it without `--offline`")]
    UrlNotStored(Box<UrlReference>),
    /// The reference names a file.
    #[error("{0} is a file, not a published component; load it as a file")]
    NotPublished(String),
    /// Its manifest in the store is none of a component.
    #[error("cannot read the manifest of {reference} in the store: {reason}; remove it and add the component again")]
    Manifest {
        /// The reference.
        reference: Box<OciReference>,
        /// The reason.
        reason: String,
    },
}

/// Gets a component from its registry. A reference with a digest is taken from the store if it is there.
///
/// # Errors
/// If the registry does not send it, the policy refuses it, or the store cannot be used.
pub async fn fetch(
    client: &RegistryClient,
    store: &Store,
    policy: &Policy,
    reference: &OciReference,
    now: Timestamp,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<FetchedComponent, FetchError> {
    let name = reference.name();
    policy.check_name(&name)?;
    if let Some(digest) = reference.digest() {
        match from_store(store, policy, reference, digest, now) {
            Ok(fetched) => return Ok(fetched),
            // What is missing or damaged is downloaded again; a new signature may have been published.
            Err(FetchError::NotStored(_) | FetchError::Store(_) | FetchError::Manifest { .. }) => {}
            Err(FetchError::Policy(PolicyError::Signature(_))) => {}
            Err(error) => return Err(error),
        }
    }
    let (resolved, bundles, trust) = resolve(client, policy, reference, now).await?;
    client.download(&resolved, store, progress).await?;
    let fetched = fetched(store, &resolved.reference, resolved.manifest, describe_resolved(&resolved), trust);
    record(store, &fetched, &resolved.manifest_bytes, &bundles, now)?;
    Ok(fetched)
}

/// Resolves a reference and applies the policy, without downloading the component.
async fn resolve(
    client: &RegistryClient,
    policy: &Policy,
    reference: &OciReference,
    now: Timestamp,
) -> Result<(ResolvedComponent, Vec<Vec<u8>>, Trust), FetchError> {
    match vouched(client, policy, client.resolve(reference).await?, now).await {
        // A mirror is believed nothing: what it gives out without a good signature is looked for at the registry itself.
        Err(FetchError::Policy(PolicyError::Signature(_))) if client.has_mirrors(reference) => {
            vouched(client, policy, client.resolve_own(reference).await?, now).await
        }
        vouched => vouched,
    }
}

/// Looks for a higher version of a component whose tag is a version: the highest that the policy accepts among the first three, or
/// else the highest with the reason why it is refused. `None` if there is none, or the tag is no version.
///
/// # Errors
/// If the registry does not list its tags, or the policy refuses the name.
pub async fn newer_version(
    client: &RegistryClient,
    policy: &Policy,
    reference: &OciReference,
    now: Timestamp,
) -> Result<Option<NewerVersion>, FetchError> {
    policy.check_name(&reference.name())?;
    let Some(current) = reference.tag().and_then(version_of_tag) else { return Ok(None) };
    let tags = newer_tags(client.tags(reference).await?, &current);
    let mut refused = None;
    for tag in tags.into_iter().take(MAX_NEWER) {
        let reference = reference.with_tag(tag);
        match resolve(client, policy, &reference, now).await {
            Ok(_) => return Ok(Some(NewerVersion { reference, refused: None })),
            Err(error) => {
                refused.get_or_insert(NewerVersion { reference, refused: Some(error) });
            }
        }
    }
    Ok(refused)
}

/// Applies the policy to what a place gives out for a reference. Returns it with its signatures and the result.
async fn vouched(
    client: &RegistryClient,
    policy: &Policy,
    resolved: ResolvedComponent,
    now: Timestamp,
) -> Result<(ResolvedComponent, Vec<Vec<u8>>, Trust), FetchError> {
    let name = resolved.reference.name();
    policy.check_revoked(&name, &[resolved.manifest, resolved.component])?;
    policy.check_size(&name, resolved.component_bytes)?;
    let rule = policy.signature_rule();
    if rule == SignatureRule::Off {
        return Ok((resolved, Vec::new(), Trust::Unchecked));
    }
    let found = signatures(client, &resolved, rule).await;
    let mut bundles = match (found, client.has_mirrors(&resolved.reference)) {
        (Err(_), true) => Vec::new(),
        (found, _) => found?,
    };
    let mut verification =
        verify_bundles(policy, &resolved.reference, &resolved.manifest, &resolved.component, &bundles);
    if verification.is_err() && client.has_mirrors(&resolved.reference) {
        let subject = &resolved.manifest;
        let maximum = MAX_BUNDLE_BYTES as u64;
        let own = client.own_referrer_contents(&resolved.reference, subject, BUNDLE_MEDIA_TYPE, maximum).await;
        let own_verification = verify_bundles(policy, &resolved.reference, subject, &resolved.component, &own);
        if own_verification.is_ok() || bundles.is_empty() {
            (bundles, verification) = (own, own_verification);
        }
    }
    let trust = policy.judge(&name, verification, now)?;
    Ok((resolved, bundles, trust))
}

/// Gets a component from the store, without a network. A tag stands for what it stood for when it was last pulled.
///
/// # Errors
/// If it is not there, was changed, or the policy refuses it.
pub fn fetch_offline(
    store: &Store,
    policy: &Policy,
    reference: &OciReference,
    now: Timestamp,
) -> Result<FetchedComponent, FetchError> {
    policy.check_name(&reference.name())?;
    let digest = match reference.digest() {
        Some(digest) => *digest,
        None => {
            let (records, _damaged) = store.list()?;
            let same = |record: &&StoreRecord| {
                record.reference.name() == reference.name() && record.reference.tag() == reference.tag()
            };
            let latest = records.iter().filter(same).max_by_key(|record| record.pulled_at);
            latest.ok_or_else(|| FetchError::NotStored(Box::new(reference.clone())))?.manifest
        }
    };
    from_store(store, policy, reference, &digest, now)
}

/// Gets a component at a URL, whose digest is part of the reference. Patterns of names apply to host and path. No signature is
/// looked for: the digest says which bytes the operator means.
///
/// # Errors
/// If the host does not send these bytes, or the policy refuses them.
pub async fn fetch_url(
    client: &RegistryClient,
    store: &Store,
    policy: &Policy,
    reference: &UrlReference,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<(Digest, PathBuf), FetchError> {
    check_url(policy, reference)?;
    client.download_url(reference, store, policy.max_component_bytes(), progress).await?;
    Ok((*reference.digest(), store.blob_path(reference.digest())))
}

/// Gets the component of a URL from the store, without a network. Returns its size in bytes; whoever reads the file compares its
/// digest.
///
/// # Errors
/// If it is not there, or the policy refuses it.
pub fn fetch_url_offline(store: &Store, policy: &Policy, reference: &UrlReference) -> Result<u64, FetchError> {
    let name = check_url(policy, reference)?;
    let bytes = store.blob_bytes(reference.digest())?;
    let bytes = bytes.ok_or_else(|| FetchError::UrlNotStored(Box::new(reference.clone())))?;
    policy.check_size(&name, bytes)?;
    Ok(bytes)
}

/// Applies the rules about names and revoked digests to a URL. Returns its name: the address without scheme and query.
fn check_url(policy: &Policy, reference: &UrlReference) -> Result<String, FetchError> {
    let url = reference.url();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let name = format!("{}{port}{}", url.host_str().unwrap_or_default(), url.path());
    policy.check_name(&name)?;
    policy.check_revoked(&name, &[*reference.digest()])?;
    Ok(name)
}

fn from_store(
    store: &Store,
    policy: &Policy,
    reference: &OciReference,
    manifest: &Digest,
    now: Timestamp,
) -> Result<FetchedComponent, FetchError> {
    let name = reference.name();
    let missing = || FetchError::NotStored(Box::new(reference.clone()));
    let record = store.record(&name, manifest)?.ok_or_else(missing)?;
    // The record only says where to look: all that counts comes from bytes whose digests are compared.
    let bytes = store.blob(manifest, MAX_MANIFEST_BYTES)?.ok_or_else(missing)?;
    let reference = reference.with_digest(*manifest);
    let described =
        describe(&bytes).map_err(|reason| FetchError::Manifest { reference: Box::new(reference.clone()), reason })?;
    policy.check_revoked(&name, &[*manifest, described.component])?;
    policy.check_size(&name, described.component_bytes)?;
    let mut bundles = Vec::new();
    if policy.signature_rule() != SignatureRule::Off {
        for digest in &record.signatures {
            bundles.extend(store.blob(digest, MAX_BUNDLE_BYTES as u64)?);
        }
    }
    let verification = verify_bundles(policy, &reference, manifest, &described.component, &bundles);
    let trust = policy.judge(&name, verification, now)?;
    if !store.has_blob(&described.component, described.component_bytes) {
        return Err(missing());
    }
    Ok(fetched(store, &reference, *manifest, described, trust))
}

/// Reads the signatures of a component. If they need not be good, one that cannot be read is as good as none.
async fn signatures(
    client: &RegistryClient,
    resolved: &ResolvedComponent,
    rule: SignatureRule,
) -> Result<Vec<Vec<u8>>, RegistryError> {
    let maximum = MAX_BUNDLE_BYTES as u64;
    let found = client.referrer_contents(&resolved.reference, &resolved.manifest, BUNDLE_MEDIA_TYPE, maximum).await;
    match (found, rule) {
        (Err(_), SignatureRule::Warn) => Ok(Vec::new()),
        (found, _) => found,
    }
}

fn verify_bundles(
    policy: &Policy,
    reference: &OciReference,
    manifest: &Digest,
    component: &Digest,
    bundles: &[Vec<u8>],
) -> Result<VerifiedSignature, SignatureError> {
    verify_reference(reference, manifest, component, bundles, policy.keys_for(&reference.name()))
}

fn describe_resolved(resolved: &ResolvedComponent) -> ComponentDescriptor {
    ComponentDescriptor {
        component: resolved.component,
        component_bytes: resolved.component_bytes,
        annotations: resolved.annotations.clone(),
    }
}

fn fetched(
    store: &Store,
    reference: &OciReference,
    manifest: Digest,
    described: ComponentDescriptor,
    trust: Trust,
) -> FetchedComponent {
    FetchedComponent {
        reference: reference.clone(),
        manifest,
        component: described.component,
        component_bytes: described.component_bytes,
        path: store.blob_path(&described.component),
        trust,
        annotations: described.annotations,
    }
}

/// Records a component. The record comes last, so that what it names is there.
fn record(
    store: &Store,
    fetched: &FetchedComponent,
    manifest: &[u8],
    bundles: &[Vec<u8>],
    now: Timestamp,
) -> Result<(), StoreError> {
    store.put(manifest)?;
    let signatures = bundles.iter().map(|bundle| store.put(bundle)).collect::<Result<_, _>>()?;
    let verified = match &fetched.trust {
        Trust::Verified(verified) => {
            Some(SignatureRecord { key: verified.key, provenance: verified.claim.provenance.clone() })
        }
        _ => None,
    };
    store.put_record(&StoreRecord {
        reference: fetched.reference.clone(),
        manifest: fetched.manifest,
        component: fetched.component,
        component_bytes: fetched.component_bytes,
        signatures,
        verified,
        pulled_at: now,
    })
}
