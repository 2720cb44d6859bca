//! The whole road over a registry that behaves well.

use std::collections::BTreeMap;

use fumehood_core::digest::Digest;
use fumehood_registry::client::RegistryClient;
use fumehood_registry::credentials::{Credential, CredentialSource};
use fumehood_registry::error::RegistryError;
use fumehood_registry::fetch::{FetchError, fetch_offline, fetch_url};
use fumehood_registry::http::{HttpConfig, Scheme};
use fumehood_registry::policy::{PolicyError, SignatureRule, Trust};
use fumehood_registry::publish::Publication;
use fumehood_registry::signature::SignatureError;
use hyper::Method;

use crate::fixture::{
    KEY, NOW, OTHER_KEY, TestStore, assert_nothing_stored, client, client_with, component, get, limits, pem, policy,
    publish, reference,
};
use crate::server::{Auth, Options, PASSWORD, TestRegistry, USER};

async fn plays_the_road(registry: &TestRegistry, client: &RegistryClient) {
    let store = TestStore::new();
    let reference = reference(&registry.host(), "acme/greeter:1.0");
    let published = publish(client, &reference, 1000, Some(&KEY)).await;
    let fetched = get(client, &store, &policy(), &reference).await.unwrap();
    assert_eq!((fetched.manifest, fetched.component), (published.manifest, published.component));
    assert_eq!(fetched.reference, reference.with_digest(published.manifest));
    let Trust::Verified(verified) = &fetched.trust else { panic!("{:?}", fetched.trust) };
    assert_eq!(verified.key, KEY.public().id());
    assert_eq!(verified.claim.provenance, crate::fixture::provenance());
    assert_eq!(fetched.read(&store.store).unwrap(), component(1000));
    assert_eq!(fetched.annotations["org.opencontainers.image.title"], "greeter");
    // Again, with the network cut: a client that reaches nothing is not even asked.
    for reference in [&reference, &fetched.reference] {
        let offline = fetch_offline(&store.store, &policy(), reference, NOW).unwrap();
        assert_eq!((offline.component, offline.trust), (fetched.component, fetched.trust.clone()));
    }
    assert_eq!(store.store.verify().unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn publishes_and_verifies_with_referrers() {
    let registry = TestRegistry::start().await;
    plays_the_road(&registry, &client()).await;
    assert!(!registry.contents().manifests.keys().any(|(_, version)| version.starts_with("sha256-")));
}

#[tokio::test(flavor = "multi_thread")]
async fn publishes_and_verifies_with_the_fallback_tag() {
    let registry = TestRegistry::start_with(Options { has_referrers: false, ..Options::default() }).await;
    plays_the_road(&registry, &client()).await;
    assert!(registry.contents().manifests.keys().any(|(_, version)| version.starts_with("sha256-")));
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_in_with_passwords_and_tokens() {
    for auth in [Auth::Basic, Auth::Bearer] {
        let registry = TestRegistry::start_with(Options { auth, ..Options::default() }).await;
        let credential = Credential::Basic { user: USER.to_owned(), password: PASSWORD.to_owned().into() };
        let credentials = CredentialSource::none().credential(registry.host(), credential);
        plays_the_road(&registry, &client_with(HttpConfig::new(), credentials)).await;
        let error = client().resolve(&reference(&registry.host(), "acme/greeter:1.0")).await.unwrap_err();
        assert!(matches!(error, RegistryError::Denied { .. }), "{error}");
        assert!(error.to_string().contains("docker login"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn speaks_tls_with_extra_roots_only() {
    let name = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certified = rcgen::generate_simple_self_signed(name).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let tls = Some(tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config)));
    let registry = TestRegistry::start_with(Options { tls, ..Options::default() }).await;
    let http = || HttpConfig::new().scheme(registry.host(), Scheme::Https);
    let trusting = client_with(http().extra_roots(pem("CERTIFICATE", certified.cert.der())), CredentialSource::none());
    plays_the_road(&registry, &trusting).await;
    let strict = client_with(http(), CredentialSource::none());
    let error = strict.resolve(&reference(&registry.host(), "acme/greeter:1.0")).await.unwrap_err();
    assert!(matches!(error, RegistryError::Unreachable { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_bytes_have_the_same_digest() {
    let registry = TestRegistry::start().await;
    let first = publish(&client(), &reference(&registry.host(), "acme/greeter:1.0"), 10, Some(&KEY)).await;
    let second = publish(&client(), &reference(&registry.host(), "acme/greeter:2.0"), 10, Some(&OTHER_KEY)).await;
    assert_eq!(first.manifest, second.manifest);
    // The layout of the CNCF, as wkg reads it.
    let contents = registry.contents();
    let (media_type, bytes) = &contents.manifests[&("acme/greeter".to_owned(), "1.0".to_owned())];
    assert_eq!(media_type, "application/vnd.oci.image.manifest.v1+json");
    let manifest: serde_json::Value = serde_json::from_slice(bytes).unwrap();
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
    let config = &contents.blobs[manifest["config"]["digest"].as_str().unwrap()];
    let config: serde_json::Value = serde_json::from_slice(config).unwrap();
    assert_eq!(config["component"]["exports"], serde_json::json!(["f"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_is_asked_first_and_names_stay() {
    let registry = TestRegistry::start().await;
    let mirror = TestRegistry::start().await;
    let reference = reference(&registry.host(), "acme/greeter:1.0");
    publish(&client(), &reference, 10, Some(&KEY)).await;
    {
        let from = registry.contents();
        let mut to = mirror.contents();
        to.blobs.clone_from(&from.blobs);
        to.manifests.clone_from(&from.manifests);
    }
    let before = registry.contents().seen.len();
    let builder = RegistryClient::builder().http(HttpConfig::new().limits(limits()));
    let mirrored = builder.mirror(registry.host(), mirror.host()).build().unwrap();
    let store = TestStore::new();
    get(&mirrored, &store, &policy(), &reference).await.unwrap();
    assert_eq!(registry.contents().seen.len(), before);
    // A mirror that is gone, or has other bytes, is as good as none.
    let builder = RegistryClient::builder().http(HttpConfig::new().limits(limits()));
    let broken = builder.mirror(registry.host(), "127.0.0.1:1").build().unwrap();
    get(&broken, &TestStore::new(), &policy(), &reference).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pinned_and_stored_needs_no_network() {
    let registry = TestRegistry::start().await;
    let tagged = reference(&registry.host(), "acme/greeter:1.0");
    publish(&client(), &tagged, 10, Some(&KEY)).await;
    let store = TestStore::new();
    let fetched = get(&client(), &store, &policy(), &tagged).await.unwrap();
    let before = registry.contents().seen.len();
    get(&client(), &store, &policy(), &fetched.reference).await.unwrap();
    assert_eq!(registry.contents().seen.len(), before);
    let other = reference(&registry.host(), "acme/other:1.0");
    let error = fetch_offline(&store.store, &policy(), &other, NOW).unwrap_err();
    assert!(matches!(error, FetchError::NotStored(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_downloaded_that_the_policy_refuses() {
    let registry = TestRegistry::start().await;
    let reference = reference(&registry.host(), "acme/greeter:1.0");
    let published = publish(&client(), &reference, 10, None).await;
    let refusals = [
        policy(),
        policy().signatures(SignatureRule::Off).max_bytes(100),
        policy().signatures(SignatureRule::Off).revoked([published.component]),
        policy().signatures(SignatureRule::Off).revoked([published.manifest]),
        policy().signatures(SignatureRule::Off).allow(["ghcr.io/**".parse().unwrap()]),
        policy().signatures(SignatureRule::Warn).min_age(std::time::Duration::from_secs(60)),
    ];
    for refusal in refusals {
        let store = TestStore::new();
        let error = get(&client(), &store, &refusal, &reference).await.unwrap_err();
        assert!(matches!(error, FetchError::Policy(_)), "{error}");
        assert!(error.to_string().contains(&reference.name()), "{error}");
        assert_nothing_stored(&store);
    }
    let path = format!("/v2/acme/greeter/blobs/{}", published.component);
    assert!(!registry.paths(&Method::GET).contains(&path));
    // The rule that only warns says why.
    let fetched =
        get(&client(), &TestStore::new(), &policy().signatures(SignatureRule::Warn), &reference).await.unwrap();
    assert!(matches!(fetched.trust, Trust::Unverified(SignatureError::Missing { .. })), "{:?}", fetched.trust);
}

#[tokio::test(flavor = "multi_thread")]
async fn signatures_of_others_are_told_apart() {
    let registry = TestRegistry::start().await;
    let check = async |rest: &str, expected: &str| {
        let error = get(&client(), &TestStore::new(), &policy(), &reference(&registry.host(), rest)).await.unwrap_err();
        let FetchError::Policy(PolicyError::Signature(error)) = error else { panic!("{error}") };
        let found = format!("{error:?}");
        assert!(found.starts_with(expected), "{found}");
        assert!(error.to_string().contains("acme/"), "{error}");
    };
    publish(&client(), &reference(&registry.host(), "acme/foreign:1"), 1, Some(&OTHER_KEY)).await;
    check("acme/foreign:1", "ForeignKey").await;
    publish(&client(), &reference(&registry.host(), "acme/missing:1"), 2, None).await;
    check("acme/missing:1", "Missing").await;
    // A good signature of one component is attached to another one, and to another name.
    let signed = Publication::new(reference(&registry.host(), "acme/signed:1"), component(3), BTreeMap::new()).unwrap();
    let signed = signed.sign(&KEY, crate::fixture::provenance()).unwrap();
    for (rest, padding, expected) in [("acme/signed:2", 4, "OtherDigest"), ("acme/moved:1", 3, "OtherName")] {
        let target = reference(&registry.host(), rest);
        let other = Publication::new(target.clone(), component(padding), BTreeMap::new()).unwrap();
        other.publish(&client()).await.unwrap();
        let kind = fumehood_registry::signature::BUNDLE_MEDIA_TYPE;
        let subject = other.artifact().manifest();
        let bundle = signed.bundle().unwrap().clone();
        client().attach(&target, subject, kind, bundle, BTreeMap::new()).await.unwrap();
        check(rest, expected).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_is_pinned_by_its_digest() {
    let registry = TestRegistry::start().await;
    let bytes = component(100);
    let digest = Digest::of(&bytes);
    registry.contents().blobs.insert(digest.to_string(), bytes.clone().into());
    let url = format!("http://{}/v2/any/blobs/{digest}#sha256={}", registry.host(), digest.hex());
    let store = TestStore::new();
    let got = fetch_url(&client(), &store.store, &policy(), &url.parse().unwrap(), &mut |_| {}).await.unwrap();
    assert_eq!(std::fs::read(got.1).unwrap(), bytes);
    let other = url.replace(&format!("#sha256={}", digest.hex()), &format!("#sha256={}", Digest::of(b"x").hex()));
    let store = TestStore::new();
    let error = fetch_url(&client(), &store.store, &policy(), &other.parse().unwrap(), &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, FetchError::Registry(RegistryError::Digest { .. })), "{error}");
    assert_nothing_stored(&store);
}

#[tokio::test(flavor = "multi_thread")]
async fn tells_how_much_was_sent() {
    let registry = TestRegistry::start().await;
    let sent = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let observer = {
        let sent = sent.clone();
        fumehood_registry::http::UploadObserver::new(move |bytes| sent.lock().unwrap().push(bytes))
    };
    let reference = reference(&registry.host(), "acme/greeter:1.0");
    let publication = Publication::new(reference.clone(), component(200_000), BTreeMap::new()).unwrap();
    publication.publish_with(&client(), &observer).await.unwrap();
    let sent = sent.lock().unwrap();
    assert_eq!(sent.last().copied(), Some(publication.artifact().component().len() as u64));
    assert!(sent.len() > 2 && sent.is_sorted(), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn signs_the_same_bytes_once() {
    for has_referrers in [true, false] {
        let registry = TestRegistry::start_with(Options { has_referrers, ..Options::default() }).await;
        let reference = reference(&registry.host(), "acme/greeter:1.0");
        let first = publish(&client(), &reference, 10, Some(&KEY)).await;
        assert!(first.signature.is_some() && !first.was_signed);
        let again = publish(&client(), &reference, 10, Some(&KEY)).await;
        assert!(again.signature.is_none() && again.was_signed, "{again:?}");
        let other = publish(&client(), &reference, 10, Some(&OTHER_KEY)).await;
        assert!(other.signature.is_some() && !other.was_signed);
        let moved = publish(&client(), &reference, 11, Some(&KEY)).await;
        assert_eq!([first.replaced, again.replaced, moved.replaced], [None, None, Some(first.manifest)]);
    }
}
