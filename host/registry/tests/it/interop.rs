//! Publications beside `oci-client`, which wkg and other tools for components are built on.

use std::collections::BTreeMap;

use fumehood_core::digest::Digest;
use fumehood_registry::fetch::{FetchedComponent, fetch_offline};
use fumehood_registry::policy::{Policy, SignatureRule};
use oci_client::client::{Client, ClientConfig, ClientProtocol, Config, ImageLayer};
use oci_client::manifest::{OCI_IMAGE_INDEX_MEDIA_TYPE as INDEX, OCI_IMAGE_MEDIA_TYPE as MANIFEST, OciImageManifest};
use oci_client::secrets::RegistryAuth;
use serde_json::json;

use crate::fixture::{KEY, NOW, TestStore, assert_nothing_stored, client, component, get, publish, reference};
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

const IMAGE_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
const EMPTY_CONFIG: &str = "application/vnd.oci.empty.v1+json";
const COMPONENT: &str = "application/wasm";
const TEXT: &str = "text/plain";

/// Layouts of artifacts: the media type of the configuration, those of the layers, and for a refused one a part of the error.
const LAYOUTS: &[(&str, &[&str], Option<&str>)] = &[
    (WASM_CONFIG, &[COMPONENT], None),
    // As `oras push` writes it.
    (EMPTY_CONFIG, &[COMPONENT], None),
    (EMPTY_CONFIG, &[TEXT, COMPONENT, TEXT], None),
    (EMPTY_CONFIG, &[TEXT, "application/vnd.oci.image.layer.v1.tar"], Some("`text/plain`, `application/vnd.oci.image")),
    (EMPTY_CONFIG, &[COMPONENT, TEXT, COMPONENT], Some("`application/wasm`, `text/plain`, `application/wasm`")),
    (EMPTY_CONFIG, &[], Some("(none)")),
    (IMAGE_CONFIG, &[COMPONENT], Some(IMAGE_CONFIG)),
];

/// Architectures of the artifacts in an index, and for a refused one a part of the error.
const INDEXES: &[(&[Option<&str>], Option<&str>)] = &[
    (&[Some("wasm")], None),
    (&[Some("amd64"), Some("wasm"), None], None),
    (&[Some("amd64"), Some("arm64")], Some("`amd64`, `arm64`")),
    (&[Some("wasm"), Some("wasm"), None], Some("`wasm`, `wasm`, `unknown`")),
    (&[], Some("(none)")),
];

/// Pushes artifacts in layouts of other programs to a registry, and reads them.
pub(crate) async fn read_other_layouts(host: &str) {
    for (number, (config, layers, refused)) in LAYOUTS.iter().enumerate() {
        let name = format!("acme/layouts:{number}");
        push(host, &name, config, layers).await;
        check(host, &name, *refused).await;
    }
    push(host, "acme/indexes:component", EMPTY_CONFIG, &[COMPONENT]).await;
    push(host, "acme/indexes:other", EMPTY_CONFIG, &[TEXT]).await;
    for (number, (architectures, refused)) in INDEXES.iter().enumerate() {
        let mut entries = Vec::new();
        for architecture in *architectures {
            let tag = if *architecture == Some("wasm") { "component" } else { "other" };
            let image = format!("{host}/acme/indexes:{tag}").parse().unwrap();
            let (bytes, digest) =
                other_client().pull_manifest_raw(&image, &RegistryAuth::Anonymous, &[MANIFEST]).await.unwrap();
            let mut entry = json!({"mediaType": MANIFEST, "digest": digest, "size": bytes.len()});
            if let Some(architecture) = architecture {
                entry["platform"] = json!({"architecture": architecture, "os": "wasip2"});
            }
            entries.push(entry);
        }
        let name = format!("acme/indexes:{number}");
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).to_string();
        let image = format!("{host}/{name}").parse().unwrap();
        other_client().push_manifest_raw(&image, index.clone(), INDEX.parse().unwrap()).await.unwrap();
        let fetched = check(host, &name, *refused).await;
        if let Some(fetched) = fetched {
            // The pin is the component's manifest: that of an index is refused, and names the other.
            let pinned = fetched.reference.digest().unwrap();
            assert_ne!(*pinned, Digest::of(index.as_bytes()));
            get(&client(), &TestStore::new(), &unsigned(), &fetched.reference).await.unwrap();
            let of_index = fetched.reference.with_digest(Digest::of(index.as_bytes()));
            let error = get(&client(), &TestStore::new(), &unsigned(), &of_index).await.unwrap_err().to_string();
            assert!(error.contains(&pinned.to_string()), "{error}");
        }
    }
}

fn unsigned() -> Policy {
    Policy::new().signatures(SignatureRule::Off)
}

/// Pushes an artifact whose layers have these media types.
async fn push(host: &str, name: &str, config: &str, layers: &[&str]) {
    let image = format!("{host}/{name}").parse().unwrap();
    let data = |kind: &str| if kind == COMPONENT { component(100) } else { b"a licence".to_vec() };
    let layers: Vec<_> = layers.iter().map(|kind| ImageLayer::new(data(kind), (*kind).to_owned(), None)).collect();
    let config = Config::new("{}", config.to_owned(), None);
    let manifest = OciImageManifest::build(&layers, &config, None);
    let manifest = OciImageManifest { media_type: Some(MANIFEST.to_owned()), ..manifest };
    other_client().push(&image, &layers, config, &RegistryAuth::Anonymous, Some(manifest)).await.unwrap();
}

/// Gets an artifact, and compares the outcome. Returns it unless it is refused.
async fn check(host: &str, name: &str, refused: Option<&str>) -> Option<FetchedComponent> {
    let store = TestStore::new();
    let got = get(&client(), &store, &unsigned(), &reference(host, name)).await;
    match (got, refused) {
        (Ok(fetched), None) => {
            assert_eq!(fetched.read(&store.store).unwrap(), component(100), "{name}");
            fetch_offline(&store.store, &unsigned(), &fetched.reference, NOW).unwrap();
            Some(fetched)
        }
        (Err(error), Some(part)) => {
            let error = error.to_string();
            assert!(error.contains(part) && error.contains("exactly one layer"), "{name}: {error}");
            assert_nothing_stored(&store);
            None
        }
        (got, _) => panic!("{name}: {got:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_of_other_layouts_are_read() {
    read_other_layouts(&TestRegistry::start().await.host()).await;
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
