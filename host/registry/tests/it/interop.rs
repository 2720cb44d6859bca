//! Publications beside `oci-client`, which wkg and other tools for components are built on.

use std::collections::BTreeMap;

use fumehood_core::digest::Digest;
use fumehood_registry::policy::{Policy, SignatureRule};
use oci_client::client::{Client, ClientConfig, ClientProtocol, Config, ImageLayer};
use oci_client::manifest::OciImageManifest;
use oci_client::secrets::RegistryAuth;

use crate::fixture::{KEY, TestStore, client, component, get, publish, reference};
use crate::server::{Options, TestRegistry};

fn other_client() -> Client {
    // It builds a TLS configuration for plain HTTP, too, and takes the one of the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::new(ClientConfig { protocol: ClientProtocol::Http, ..ClientConfig::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn others_pull_what_we_publish_and_find_its_signature() {
    for has_referrers in [true, false] {
        let registry = TestRegistry::start_with(Options { has_referrers, ..Options::default() }).await;
        let published = publish(&client(), &reference(&registry.host(), "acme/greeter:1.0"), 100, Some(&KEY)).await;
        let other = other_client();
        let name = format!("{}/acme/greeter:1.0", registry.host()).parse().unwrap();
        let kinds = vec!["application/wasm"];
        let image = other.pull(&name, &RegistryAuth::Anonymous, kinds).await.unwrap();
        assert_eq!(image.digest.unwrap(), published.manifest.to_string());
        assert_eq!(image.layers[0].data, component(100));
        assert_eq!(image.config.media_type, "application/vnd.wasm.config.v0+json");
        let pinned = name.clone_with_digest(published.manifest.to_string());
        let kind = fumehood_registry::signature::BUNDLE_MEDIA_TYPE;
        let referrers = other.pull_referrers(&pinned, Some(kind)).await.unwrap();
        assert_eq!(referrers.manifests.len(), 1);
        assert_eq!(referrers.manifests[0].digest, published.signature.unwrap().to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn we_pull_what_others_publish() {
    let registry = TestRegistry::start().await;
    let name = format!("{}/acme/theirs:1.0", registry.host()).parse().unwrap();
    let layer = ImageLayer::new(component(100), "application/wasm".to_owned(), None);
    let config = Config::new("{}", "application/vnd.wasm.config.v0+json".to_owned(), None);
    let manifest = OciImageManifest::build(std::slice::from_ref(&layer), &config, None);
    let manifest =
        OciImageManifest { media_type: Some("application/vnd.oci.image.manifest.v1+json".to_owned()), ..manifest };
    other_client().push(&name, &[layer], config, &RegistryAuth::Anonymous, Some(manifest)).await.unwrap();
    let policy = Policy::new().signatures(SignatureRule::Off);
    let fetched =
        get(&client(), &TestStore::new(), &policy, &reference(&registry.host(), "acme/theirs:1.0")).await.unwrap();
    assert_eq!(fetched.component, Digest::of(&component(100)));
}

#[tokio::test(flavor = "multi_thread")]
async fn we_pull_what_wkg_publishes() {
    // The manifest and the configuration that `wkg oci push` (0.16) sends, member by member.
    let registry = TestRegistry::start().await;
    let reference = reference(&registry.host(), "acme/theirs:1.0");
    let title = ("org.opencontainers.image.title".to_owned(), "greeter.wasm".to_owned());
    let layer =
        ImageLayer::new(component(100), "application/wasm".to_owned(), Some(BTreeMap::from_iter([title.clone()])));
    let digest = Digest::of(&component(100));
    let config = serde_json::json!({
        "created": "2026-01-01T00:00:00.123456789Z",
        "author": null,
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [digest.to_string()],
        "component": { "exports": ["f"], "imports": [], "target": null },
    });
    let config = Config::new(config.to_string(), "application/vnd.wasm.config.v0+json".to_owned(), None);
    let mut manifest = OciImageManifest::build(std::slice::from_ref(&layer), &config, None);
    manifest.media_type = Some("application/vnd.oci.image.manifest.v1+json".to_owned());
    let name = format!("{}/acme/theirs:1.0", registry.host()).parse().unwrap();
    other_client().push(&name, &[layer], config, &RegistryAuth::Anonymous, Some(manifest)).await.unwrap();
    {
        let contents = registry.contents();
        let (_, sent) = &contents.manifests[&("acme/theirs".to_owned(), "1.0".to_owned())];
        let sent: serde_json::Value = serde_json::from_slice(sent).unwrap();
        assert_eq!(sent["layers"][0]["annotations"][&title.0], title.1, "{sent}");
    }
    let error = get(&client(), &TestStore::new(), &crate::fixture::policy(), &reference).await.unwrap_err();
    assert!(error.to_string().contains("is not signed"), "{error}");
    let store = TestStore::new();
    let policy = Policy::new().signatures(SignatureRule::Off);
    let fetched = get(&client(), &store, &policy, &reference).await.unwrap();
    assert_eq!(fetched.read(&store.store).unwrap(), component(100));
}
