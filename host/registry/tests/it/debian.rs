//! The road over Debian's `docker-registry`, which has no API for referrers: plain, and with TLS and passwords.

use fumehood_registry::client::RegistryClient;
use fumehood_registry::credentials::CredentialSource;
use fumehood_registry::fetch::{FetchError, fetch_offline};
use fumehood_registry::http::{HttpConfig, Scheme};
use fumehood_registry::policy::Trust;
use fumehood_tests::docker_registry::{DockerRegistry, PASSWORD, Settings, USER};

use crate::fixture::{KEY, NOW, TestStore, client, client_with, component, get, pem, policy, publish, reference};
use crate::interop::read_other_layouts;

async fn plays_the_road(registry: &DockerRegistry, client: &RegistryClient) {
    let reference = reference(registry.host(), "acme/greeter:1.0");
    let published = publish(client, &reference, 500_000, Some(&KEY)).await;
    let again = publish(client, &reference, 500_000, Some(&KEY)).await;
    assert_eq!(published.manifest, again.manifest);
    let store = TestStore::new();
    let fetched = get(client, &store, &policy(), &reference).await.unwrap();
    assert!(matches!(fetched.trust, Trust::Verified(_)), "{:?}", fetched.trust);
    assert_eq!(fetched.read(&store.store).unwrap(), component(500_000));
    fetch_offline(&store.store, &policy(), &fetched.reference, NOW).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn plays_the_road_over_debians_registry() {
    let folder = tempfile::tempdir().unwrap();
    let Some(registry) = DockerRegistry::start(folder.path(), Settings::default()).unwrap() else { return };
    plays_the_road(&registry, &client()).await;
    read_other_layouts(registry.host()).await;
    let error = get(&client(), &TestStore::new(), &policy(), &reference(registry.host(), "acme/none:1")).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("does not exist") && error.contains("acme/none"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plays_the_road_over_tls_with_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certified = rcgen::generate_simple_self_signed(names).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let certificate_pem = pem("CERTIFICATE", certified.cert.der());
    let certificate = file("certificate.pem", &certificate_pem);
    let key = file("key.pem", &pem("PRIVATE KEY", &certified.signing_key.serialize_der()));
    let settings = Settings { tls: Some((certificate.as_ref(), key.as_ref())), has_password: true };
    let Some(registry) = DockerRegistry::start(folder.path(), settings).unwrap() else { return };
    let entry = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, format!("{USER}:{PASSWORD}"));
    let docker = file("config.json", &format!(r#"{{"auths":{{"{}":{{"auth":"{entry}"}}}}}}"#, registry.host()));
    let http = || HttpConfig::new().scheme(registry.host(), Scheme::Https).extra_roots(certificate_pem.clone());
    plays_the_road(&registry, &client_with(http(), CredentialSource::none().file(docker))).await;
    let anonymous = client_with(http(), CredentialSource::none());
    let error = get(&anonymous, &TestStore::new(), &policy(), &reference(registry.host(), "acme/greeter:1.0")).await;
    let error = error.unwrap_err();
    assert!(matches!(&error, FetchError::Registry(error) if error.to_string().contains("docker login")), "{error}");
}
