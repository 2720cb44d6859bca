//! Publications beside `oci-client`, which wkg and other tools for components are built on.

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
        let (other, name) = (other_client(), format!("{}/acme/greeter:1.0", registry.host()).parse().unwrap());
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
