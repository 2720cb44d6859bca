//! The road over Debian's `docker-registry`, which has no API for referrers: plain, and with TLS and passwords.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fumehood_registry::client::RegistryClient;
use fumehood_registry::credentials::CredentialSource;
use fumehood_registry::fetch::{FetchError, fetch_offline};
use fumehood_registry::http::{HttpConfig, Scheme};
use fumehood_registry::policy::Trust;

use crate::fixture::{KEY, NOW, TestStore, client, client_with, component, get, pem, policy, publish, reference};
use crate::server::{PASSWORD, USER};

const PROGRAM: &str = "docker-registry";

/// A registry that ends with the test.
struct Registry {
    program: Child,
    host: String,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Starts the registry, or says that the test is skipped.
fn start(folder: &Path, http: &str, auth: &str) -> Option<Registry> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let host = format!("127.0.0.1:{port}");
    let storage = folder.join("storage").display().to_string();
    let configuration = format!(
        "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {storage}\nhttp:\n  addr: {host}\n{http}{auth}"
    );
    let path = folder.join("config.yml");
    std::fs::write(&path, configuration).unwrap();
    let log = std::fs::File::create(folder.join("log")).unwrap();
    let started = Command::new(PROGRAM).arg("serve").arg(&path).stdout(Stdio::null()).stderr(log).spawn();
    let Ok(program) = started else {
        println!("SKIPPED: {PROGRAM} is not installed");
        return None;
    };
    let registry = Registry { program, host };
    let began = Instant::now();
    while TcpStream::connect(&registry.host).is_err() {
        let log = || std::fs::read_to_string(folder.join("log")).unwrap();
        assert!(began.elapsed() < Duration::from_secs(30), "it does not start: {}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(registry)
}

async fn plays_the_road(registry: &Registry, client: &RegistryClient) {
    let reference = reference(&registry.host, "acme/greeter:1.0");
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
    let Some(registry) = start(folder.path(), "", "") else { return };
    plays_the_road(&registry, &client()).await;
    let error = get(&client(), &TestStore::new(), &policy(), &reference(&registry.host, "acme/none:1")).await;
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
    let made = Command::new("htpasswd").args(["-Bbn", USER, PASSWORD]).output();
    let Ok(made) = made else {
        println!("SKIPPED: htpasswd is not installed");
        return;
    };
    let passwords = file("htpasswd", &String::from_utf8(made.stdout).unwrap());
    let http = format!("  tls:\n    certificate: {certificate}\n    key: {key}\n");
    let auth = format!("auth:\n  htpasswd:\n    realm: test\n    path: {passwords}\n");
    let Some(registry) = start(folder.path(), &http, &auth) else { return };
    let entry = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, format!("{USER}:{PASSWORD}"));
    let docker = file("config.json", &format!(r#"{{"auths":{{"{}":{{"auth":"{entry}"}}}}}}"#, registry.host));
    let http = || HttpConfig::new().scheme(&registry.host, Scheme::Https).extra_roots(certificate_pem.clone());
    plays_the_road(&registry, &client_with(http(), CredentialSource::none().file(docker))).await;
    let anonymous = client_with(http(), CredentialSource::none());
    let error = get(&anonymous, &TestStore::new(), &policy(), &reference(&registry.host, "acme/greeter:1.0")).await;
    let error = error.unwrap_err();
    assert!(matches!(&error, FetchError::Registry(error) if error.to_string().contains("docker login")), "{error}");
}
