//! Credentials of Docker and Podman, through a registry that asks for them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fumehood_registry::credentials::CredentialSource;
use fumehood_registry::error::RegistryError;
use fumehood_registry::http::HttpConfig;

use crate::fixture::{client_with, reference};
use crate::server::{Auth, Options, PASSWORD, TestRegistry, USER};

/// Returns the error of asking for something that does not exist, with the credentials of a file.
async fn ask(source: CredentialSource, registry: &TestRegistry) -> RegistryError {
    let client = client_with(HttpConfig::new(), source);
    client.resolve(&reference(&registry.host(), "acme/tools/greeter:1")).await.unwrap_err()
}

fn write(folder: &Path, text: &str) -> CredentialSource {
    let path = folder.join("config.json");
    std::fs::write(&path, text).unwrap();
    CredentialSource::none().file(path)
}

async fn registry() -> TestRegistry {
    TestRegistry::start_with(Options { auth: Auth::Basic, ..Options::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_most_specific_entry_counts() {
    let registry = registry().await;
    let folder = tempfile::tempdir().unwrap();
    let host = registry.host();
    let good = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let bad = STANDARD.encode("ann:wrong");
    for (text, is_good) in [
        (format!(r#"{{"auths":{{"{host}":{{"auth":"{good}"}}}}}}"#), true),
        (format!(r#"{{"auths":{{"https://{host}/v2/":{{"auth":"{good}"}}}}}}"#), true),
        (format!(r#"{{"auths":{{"{host}":{{"auth":"{bad}"}},"{host}/acme/tools":{{"auth":"{good}"}}}}}}"#), true),
        (format!(r#"{{"auths":{{"{host}":{{"auth":"{good}"}},"{host}/acme":{{"auth":"{bad}"}}}}}}"#), false),
        (format!(r#"{{"auths":{{"other.example":{{"auth":"{good}"}}}}}}"#), false),
        ("{}".to_owned(), false),
    ] {
        let error = ask(write(folder.path(), &text), &registry).await;
        assert_eq!(matches!(error, RegistryError::NotFound { .. }), is_good, "{text}: {error}");
        assert!(!error.to_string().contains(PASSWORD), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_files_are_named_and_missing_ones_are_not() {
    let registry = registry().await;
    let folder = tempfile::tempdir().unwrap();
    for text in ["", "[]", "{\"auths\": 1}", "not JSON"] {
        let error = ask(write(folder.path(), text), &registry).await;
        assert!(matches!(error, RegistryError::Credentials(_)), "{text}: {error}");
        assert!(error.to_string().contains("config.json"), "{error}");
    }
    let missing = CredentialSource::none().file(folder.path().join("missing.json"));
    assert!(matches!(ask(missing, &registry).await, RegistryError::Denied { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn helpers_are_asked() {
    let registry = registry().await;
    let folder = tempfile::tempdir().unwrap();
    // Helpers are found on the search path, which belongs to a whole process: the test runs itself in another one.
    let helper = |name: &str, script: &str| {
        let path = folder.path().join(format!("docker-credential-{name}"));
        std::fs::write(&path, format!("#!/bin/sh\ncat >/dev/null\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    helper("good", &format!(r#"echo '{{"Username":"{USER}","Secret":"{PASSWORD}"}}'"#));
    helper("empty", "echo 'credentials not found in native keychain'; exit 1");
    helper("broken", "echo oops >&2; exit 3");
    let search_path = std::env::var("PATH").unwrap();
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "credentials::asks_helpers_on_the_search_path", "--nocapture"])
        .env("PATH", format!("{}:{search_path}", folder.path().display()))
        .env("FUMEHOOD_TEST_HELPERS", registry.host())
        .output()
        .unwrap();
    assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
}

/// A process of the test before: it has the helpers on its search path.
#[tokio::test(flavor = "multi_thread")]
async fn asks_helpers_on_the_search_path() {
    let Ok(host) = std::env::var("FUMEHOOD_TEST_HELPERS") else { return };
    let folder = tempfile::tempdir().unwrap();
    let ask = async |text: String| {
        let client = client_with(HttpConfig::new(), write(folder.path(), &text));
        client.resolve(&reference(&host, "acme/tools/greeter:1")).await.unwrap_err()
    };
    let good = ask(format!(r#"{{"credHelpers":{{"{host}":"good"}}}}"#)).await;
    assert!(matches!(good, RegistryError::NotFound { .. }), "{good}");
    let store = ask(r#"{"credsStore":"good"}"#.to_owned()).await;
    assert!(matches!(store, RegistryError::NotFound { .. }), "{store}");
    let empty = ask(r#"{"credsStore":"empty"}"#.to_owned()).await;
    assert!(matches!(empty, RegistryError::Denied { .. }), "{empty}");
    for name in ["broken", "not-installed"] {
        let error = ask(format!(r#"{{"credsStore":"{name}"}}"#)).await;
        assert!(matches!(error, RegistryError::Credentials(_)), "{error}");
    }
}

#[test]
fn standard_places_are_those_of_podman_and_docker() {
    let usual = describe_places(&[("HOME", "/home/ann"), ("XDG_RUNTIME_DIR", "/run/user/1")]);
    let expected =
        ["/run/user/1/containers/auth.json", "/home/ann/.config/containers/auth.json", "/home/ann/.docker/config.json"];
    assert!(expected.iter().all(|path| usual.contains(path)), "{usual}");
    let named =
        describe_places(&[("HOME", "/home/ann"), ("DOCKER_CONFIG", "/d"), ("REGISTRY_AUTH_FILE", "/p/auth.json")]);
    assert!(named.contains("/p/auth.json") && named.contains("/d/config.json") && !named.contains("/home"), "{named}");
}

fn describe_places(variables: &[(&str, &str)]) -> String {
    let environment = |name: &str| {
        variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| std::ffi::OsString::from(value))
    };
    format!("{:?}", CredentialSource::standard(&environment))
}
