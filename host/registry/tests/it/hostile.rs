//! Registries that are broken, slow or lie: each is refused in a sentence, and leaves nothing in the store.

use std::time::{Duration, Instant};

use bytes::Bytes;
use fumehood_core::digest::Digest;
use fumehood_registry::client::RegistryClient;
use fumehood_registry::credentials::{Credential, CredentialSource};
use fumehood_registry::error::RegistryError;
use fumehood_registry::fetch::{FetchError, fetch_offline};
use fumehood_registry::http::HttpConfig;
use fumehood_registry::policy::{Policy, SignatureRule, Trust};
use fumehood_registry::reference::OciReference;
use fumehood_registry::signature::{BUNDLE_MEDIA_TYPE, SignatureError};
use hyper::{Method, Response};
use serde_json::json;

use crate::fixture::{
    KEY, NOW, OTHER_KEY, TestStore, assert_nothing_stored, client, client_with, component, get, limits, publish,
    reference,
};
use crate::server::{
    Auth, Body, Contents, Options, PASSWORD, ReceivedRequest, TestRegistry, USER, endless, full, pieces, with_header,
};

const PADDING: usize = 50_000;
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

fn unsigned() -> Policy {
    Policy::new().signatures(SignatureRule::Off)
}

fn component_path() -> String {
    format!("/v2/acme/greeter/blobs/{}", Digest::of(&component(PADDING)))
}

/// Publishes a component, and returns the error of getting it after `fault` takes the place of the registry's answers to GET
/// requests. Nothing may be stored.
async fn error_with(
    fault: impl Fn(&ReceivedRequest, &Contents) -> Option<Response<Body>> + Send + Sync + 'static,
) -> RegistryError {
    let registry = TestRegistry::with_fault(
        move |seen, contents| {
            if seen.method == Method::GET { fault(seen, contents) } else { None }
        },
    )
    .await;
    let reference = reference(&registry.host(), "acme/greeter:1.0");
    publish(&client(), &reference, PADDING, None).await;
    let store = TestStore::new();
    let error = get(&client(), &store, &unsigned(), &reference).await.unwrap_err();
    assert_nothing_stored(&store);
    let FetchError::Registry(error) = error else { panic!("{error}") };
    assert!(error.to_string().contains(&registry.host()), "{error}");
    error
}

fn of_component(seen: &ReceivedRequest) -> bool {
    seen.path == component_path()
}

fn of_manifest(seen: &ReceivedRequest) -> bool {
    seen.path.contains("/manifests/")
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_other_bytes() {
    let wrong = |seen: &ReceivedRequest, contents: &Contents| {
        let mut bytes = contents.blobs.get(&Digest::of(&component(PADDING)).to_string())?.to_vec();
        bytes[100] ^= 1;
        of_component(seen).then(|| full(200, bytes))
    };
    let error = error_with(wrong).await;
    assert!(matches!(error, RegistryError::Digest { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_huge_manifests() {
    let huge = |seen: &ReceivedRequest, _: &Contents| {
        let answer = || endless(200, Bytes::from(vec![b' '; 1 << 20]), Duration::ZERO);
        of_manifest(seen).then(answer)
    };
    let error = error_with(huge).await;
    assert!(matches!(error, RegistryError::TooLarge { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_read_as_far_as_their_message_goes() {
    let endless_error = |seen: &ReceivedRequest, _: &Contents| {
        of_manifest(seen).then(|| endless(418, Bytes::from(vec![b'x'; 64 << 10]), Duration::ZERO))
    };
    let error = error_with(endless_error).await;
    assert!(matches!(error, RegistryError::Status { status: 418, .. }), "{error}");
    let hidden = |seen: &ReceivedRequest, _: &Contents| {
        let body = "{\"errors\":[{\"code\":\"DENIED\",\"message\":\"a\u{202e}b\"}]}";
        of_manifest(seen).then(|| full(418, body))
    };
    let error = error_with(hidden).await.to_string();
    assert!(error.contains("a\\u{202e}b"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_endless_layers() {
    let layer = |seen: &ReceivedRequest, _: &Contents| {
        of_component(seen).then(|| endless(200, Bytes::from(vec![0; 16 << 10]), Duration::ZERO))
    };
    let error = error_with(layer).await;
    assert!(matches!(error, RegistryError::TooLarge { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn gives_up_on_answers_that_drip() {
    let began = Instant::now();
    let drip = |seen: &ReceivedRequest, _: &Contents| {
        of_component(seen).then(|| endless(200, Bytes::from_static(b"x"), Duration::from_millis(100)))
    };
    let error = error_with(drip).await;
    assert!(matches!(error, RegistryError::Slow { .. }), "{error}");
    let silent = |seen: &ReceivedRequest, _: &Contents| {
        of_manifest(seen).then(|| endless(200, Bytes::from_static(b"x"), Duration::from_secs(60)))
    };
    let error = error_with(silent).await;
    assert!(matches!(error, RegistryError::Timeout { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_redirects_to_other_places() {
    // A service of this machine, which must not see a single request.
    let inside = TestRegistry::start().await;
    for target in [
        format!("http://{}/secret", inside.host()),
        format!("https://{}/secret", inside.host()),
        "https://localhost/x".to_owned(),
        "https://169.254.169.254/latest/meta-data".to_owned(),
        "https://[::1]/x".to_owned(),
        "file:///etc/passwd".to_owned(),
        "http://example.com/x".to_owned(),
    ] {
        let layer = move |seen: &ReceivedRequest, _: &Contents| {
            of_component(seen).then(|| with_header(full(307, ""), "location", &target))
        };
        let error = error_with(layer).await;
        assert!(matches!(error, RegistryError::Redirect { .. }), "{error}");
    }
    let manifest = |seen: &ReceivedRequest, _: &Contents| {
        of_manifest(seen).then(|| with_header(full(302, ""), "location", "https://example.com/x"))
    };
    let error = error_with(manifest).await;
    assert!(matches!(error, RegistryError::Redirect { .. }), "{error}");
    let circle = |seen: &ReceivedRequest, _: &Contents| {
        of_component(seen).then(|| with_header(full(307, ""), "location", &component_path()))
    };
    let error = error_with(circle).await;
    assert!(matches!(error, RegistryError::Redirect { .. }), "{error}");
    assert_eq!(inside.contents().seen.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn redirected_downloads_carry_no_credentials() {
    let elsewhere = TestRegistry::start().await;
    let bytes = component(PADDING);
    elsewhere.contents().blobs.insert(Digest::of(&bytes).to_string(), bytes.into());
    let target = format!("http://{}{}", elsewhere.host(), component_path());
    let fault = move |seen: &ReceivedRequest, _: &Contents| {
        let is_download = seen.method == Method::GET && of_component(seen);
        is_download.then(|| with_header(full(307, ""), "location", &target))
    };
    let options = Options { auth: Auth::Basic, fault: Some(Box::new(fault)), ..Options::default() };
    let registry = TestRegistry::start_with(options).await;
    let credential = Credential::Basic { user: USER.to_owned(), password: PASSWORD.to_owned().into() };
    let credentials = CredentialSource::none().credential(registry.host(), credential);
    let client = client_with(HttpConfig::new().redirect_host(elsewhere.host()), credentials);
    let reference = reference(&registry.host(), "acme/greeter:1.0");
    publish(&client, &reference, PADDING, None).await;
    get(&client, &TestStore::new(), &unsigned(), &reference).await.unwrap();
    let seen = elsewhere.contents().seen.clone();
    assert_eq!(seen.len(), 1);
    assert!(!seen[0].headers.contains_key("authorization"));
}

#[tokio::test(flavor = "multi_thread")]
async fn resumes_what_was_cut_off() {
    // Each answer ends after a third of the component.
    let cut = |seen: &ReceivedRequest, contents: &Contents| {
        let blob = contents.blobs.get(&Digest::of(&component(PADDING)).to_string())?;
        let range = seen.headers.get("range").and_then(|value| value.to_str().ok());
        let from = range.map_or(0, |range| range["bytes=".len()..range.len() - 1].parse::<usize>().unwrap());
        let to = (from + blob.len() / 3 + 1).min(blob.len());
        if seen.method != Method::GET || !of_component(seen) {
            return None;
        }
        let end = std::io::Error::other("cut off");
        let piece = (Duration::ZERO, Ok(blob.slice(from..to)));
        let answer = if to == blob.len() {
            pieces(if from > 0 { 206 } else { 200 }, vec![piece])
        } else {
            pieces(if from > 0 { 206 } else { 200 }, vec![piece, (Duration::from_millis(20), Err(end))])
        };
        let range = format!("bytes {from}-{}/{}", blob.len() - 1, blob.len());
        Some(if from > 0 { with_header(answer, "content-range", &range) } else { answer })
    };
    let registry = TestRegistry::with_fault(cut).await;
    let reference = reference(&registry.host(), "acme/greeter:1.0");
    publish(&client(), &reference, PADDING, None).await;
    let store = TestStore::new();
    let fetched = get(&client(), &store, &unsigned(), &reference).await.unwrap();
    assert_eq!(fetched.read(&store.store).unwrap(), component(PADDING));
    let downloads: Vec<bool> = {
        let contents = registry.contents();
        let gets = contents.seen.iter().filter(|seen| seen.method == Method::GET && of_component(seen));
        gets.map(|seen| seen.headers.contains_key("range")).collect()
    };
    assert_eq!(downloads, [false, true, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn gives_up_on_answers_that_always_end_early() {
    let cut = |seen: &ReceivedRequest, _: &Contents| {
        let end = std::io::Error::other("cut off");
        let piece = (Duration::ZERO, Ok(Bytes::from_static(b"\0asm")));
        of_component(seen).then(|| pieces(200, vec![piece, (Duration::from_millis(5), Err(end))]))
    };
    let error = error_with(cut).await;
    assert!(matches!(error, RegistryError::Truncated { .. }), "{error}");
    // Another range than the one that was asked for.
    let range = |seen: &ReceivedRequest, _: &Contents| {
        let answer = || with_header(full(206, "zzzz"), "content-range", "bytes 7-10/60000");
        of_component(seen).then(answer)
    };
    let error = error_with(range).await;
    assert!(matches!(error, RegistryError::Malformed { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_what_is_no_manifest_of_a_component() {
    let html = |seen: &ReceivedRequest, _: &Contents| {
        of_manifest(seen).then(|| with_header(full(200, "<html>log in</html>"), "content-type", "text/html"))
    };
    let error = error_with(html).await;
    assert!(matches!(error, RegistryError::Malformed { .. }), "{error}");
    let manifest = "application/vnd.oci.image.manifest.v1+json";
    let config = r#"{"mediaType":"application/vnd.wasm.config.v0+json","digest":"sha256:00","size":2}"#;
    let digest = Digest::of(b"").to_string();
    let good = layer_json("application/wasm", &digest, 10);
    for (config, layers) in [
        (config, String::new()),
        (config, format!("{good},{good}")),
        (config, layer_json("application/vnd.oci.image.layer.v1.tar+gzip", &digest, 10)),
        (config, layer_json("application/wasm", "sha256:zz", 10)),
        (config, layer_json("application/wasm", &digest, -1)),
        (r#"{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:00","size":2}"#, good.clone()),
    ] {
        let body = format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{layers}]}}"#);
        let fault = move |seen: &ReceivedRequest, _: &Contents| {
            of_manifest(seen).then(|| with_header(full(200, body.clone()), "content-type", manifest))
        };
        let registry = TestRegistry::with_fault(fault).await;
        let reference = reference(&registry.host(), "acme/greeter:1.0");
        let store = TestStore::new();
        let error = get(&client(), &store, &unsigned(), &reference).await.unwrap_err();
        assert!(matches!(error, FetchError::Registry(RegistryError::NotAComponent { .. })), "{error}");
        assert!(error.to_string().contains("acme/greeter"), "{error}");
        assert_nothing_stored(&store);
    }
}

fn layer_json(media_type: &str, digest: &str, size: i64) -> String {
    format!(r#"{{"mediaType":"{media_type}","digest":"{digest}","size":{size}}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_that_moves_changes_nothing_that_is_pinned() {
    let registry = TestRegistry::start().await;
    let tagged = reference(&registry.host(), "acme/greeter:1.0");
    let first = publish(&client(), &tagged, PADDING, None).await;
    let other = publish(&client(), &tagged, PADDING + 1, None).await;
    assert_ne!(first.manifest, other.manifest);
    let pinned = tagged.with_digest(first.manifest);
    let fetched = get(&client(), &TestStore::new(), &unsigned(), &pinned).await.unwrap();
    assert_eq!(fetched.component, first.component);
    // The registry answers the digest with the other manifest.
    let moved = registry.contents().manifests[&("acme/greeter".to_owned(), other.manifest.to_string())].clone();
    registry.contents().manifests.insert(("acme/greeter".to_owned(), first.manifest.to_string()), moved);
    let store = TestStore::new();
    let error = get(&client(), &store, &unsigned(), &pinned).await.unwrap_err();
    assert!(matches!(error, FetchError::Registry(RegistryError::Digest { .. })), "{error}");
    assert_nothing_stored(&store);
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_what_is_transient_and_no_more() {
    let attempts = limits().retries as usize + 1;
    for status in [429, 500, 503] {
        let (message, seen) = count_requests(status).await;
        assert_eq!(seen, attempts, "{message}");
        assert!(message.contains(&status.to_string()) && message.contains("later"), "{message}");
    }
    for status in [400, 403, 404, 418] {
        assert_eq!(count_requests(status).await.1, 1, "{status}");
    }
}

async fn count_requests(status: u16) -> (String, usize) {
    let busy = move |seen: &ReceivedRequest, _: &Contents| {
        of_manifest(seen).then(|| with_header(full(status, "later"), "retry-after", "0"))
    };
    let registry = TestRegistry::with_fault(busy).await;
    let reference = reference(&registry.host(), "acme/greeter:1.0");
    let error = get(&client(), &TestStore::new(), &unsigned(), &reference).await.unwrap_err();
    let seen = registry.contents().seen.len();
    (error.to_string(), seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_stay_with_encrypted_services() {
    // The service that the registry names is not encrypted, and on another machine.
    let challenge = |_: &ReceivedRequest, _: &Contents| {
        let challenge = "Bearer realm=\"http://auth.example/token\",service=\"x\"";
        Some(with_header(full(401, ""), "www-authenticate", challenge))
    };
    let registry = TestRegistry::with_fault(challenge).await;
    let credential = Credential::Basic { user: USER.to_owned(), password: PASSWORD.to_owned().into() };
    let credentials = CredentialSource::none().credential(registry.host(), credential);
    let client = client_with(HttpConfig::new(), credentials);
    let error = client.resolve(&reference(&registry.host(), "acme/greeter:1.0")).await.unwrap_err();
    assert!(error.to_string().contains("not encrypted"), "{error}");
    assert!(!error.to_string().contains(PASSWORD) && !format!("{client:?}").contains(PASSWORD));
}

#[tokio::test(flavor = "multi_thread")]
async fn authorization_services_elsewhere_get_no_request_and_no_password() {
    // A service of this machine that is not the registry, which must not see a single request.
    let inside = TestRegistry::start().await;
    let port = inside.address.port();
    for realm in [
        format!("http://127.0.0.1:{port}/token"),
        format!("https://127.0.0.1:{port}/token"),
        format!("http://localhost:{port}/internal/delete?all=1"),
        format!("http://LOCALHOST.:{port}/token"),
        format!("http://[::1]:{port}/token"),
        format!("http://[::ffff:127.0.0.1]:{port}/token"),
        format!("http://2130706433:{port}/token"),
        format!("http://0.0.0.0:{port}/token"),
        "https://169.254.169.254/latest/meta-data".to_owned(),
        "https://10.0.0.1/token".to_owned(),
        "https://localhost/token".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        let challenge = format!("Bearer realm=\"{realm}\",service=\"x\",scope=\"repository:acme/greeter:pull\"");
        let registry =
            TestRegistry::with_fault(move |_, _| Some(with_header(full(401, ""), "www-authenticate", &challenge)))
                .await;
        let credentials = [
            Credential::Basic { user: USER.to_owned(), password: PASSWORD.to_owned().into() },
            Credential::IdentityToken(PASSWORD.to_owned().into()),
        ];
        for credential in credentials {
            let credentials = CredentialSource::none().credential(registry.host(), credential);
            let client = client_with(HttpConfig::new(), credentials);
            let error = client.resolve(&reference(&registry.host(), "acme/greeter:1.0")).await.unwrap_err();
            assert!(error.to_string().contains("its authorization service"), "{realm}: {error}");
        }
    }
    assert_eq!(inside.contents().seen.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_authorization_service_gets_the_password() {
    let service = TestRegistry::with_fault(|_, _| Some(full(200, "{\"token\": \"t\"}"))).await;
    let challenge = format!("Bearer realm=\"http://{}/token\",service=\"x\"", service.host());
    let registry =
        TestRegistry::with_fault(move |_, _| Some(with_header(full(401, ""), "www-authenticate", &challenge))).await;
    let credential = Credential::Basic { user: USER.to_owned(), password: PASSWORD.to_owned().into() };
    let credentials = CredentialSource::none().credential(registry.host(), credential);
    let client = client_with(HttpConfig::new().token_host(service.host()), credentials);
    let _denied = client.resolve(&reference(&registry.host(), "acme/greeter:1.0")).await.unwrap_err();
    assert!(service.contents().seen.iter().any(|seen| seen.headers.contains_key("authorization")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_was_signed_for_another_tag_is_refused() {
    let registry = TestRegistry::start().await;
    let old = reference(&registry.host(), "acme/greeter:1.0");
    let new = reference(&registry.host(), "acme/greeter:1.1");
    let signed = Policy::new().trusted_keys([KEY.public().clone()]);
    let old_release = publish(&client(), &old, 100, Some(&KEY)).await;
    publish(&client(), &new, 200, Some(&KEY)).await;
    let store = TestStore::new();
    get(&client(), &store, &signed, &old).await.unwrap();
    get(&client(), &store, &signed, &new).await.unwrap();
    // The registry gives out the older release, with its own good signature, under the newer tag.
    {
        let mut contents = registry.contents();
        let moved = contents.manifests[&tag_of_greeter("1.0")].clone();
        contents.manifests.insert(tag_of_greeter("1.1"), moved);
    }
    let pinned = new.with_digest(old_release.manifest);
    for (store, asked) in [(&TestStore::new(), &new), (&store, &new), (&store, &pinned), (&TestStore::new(), &pinned)] {
        let error = get(&client(), store, &signed, asked).await.unwrap_err().to_string();
        assert!(error.contains("was made for the tag 1.0, but 1.1 was requested"), "{asked}: {error}");
    }
    let error = fetch_offline(&store.store, &signed, &pinned, NOW).unwrap_err().to_string();
    assert!(error.contains("was made for the tag 1.0, but 1.1 was requested"), "from the store: {error}");
    let warned =
        get(&client(), &TestStore::new(), &signed.clone().signatures(SignatureRule::Warn), &new).await.unwrap();
    assert!(matches!(warned.trust, Trust::Unverified(SignatureError::OtherTag { .. })), "{:?}", warned.trust);
    // A digest alone asks for no tag, and one release may have several tags, each with its signature.
    let by_digest = reference(&registry.host(), &format!("acme/greeter@{}", old_release.manifest));
    get(&client(), &TestStore::new(), &signed, &by_digest).await.unwrap();
    publish(&client(), &reference(&registry.host(), "acme/greeter:latest"), 100, Some(&KEY)).await;
    get(&client(), &TestStore::new(), &signed, &reference(&registry.host(), "acme/greeter:latest")).await.unwrap();
    get(&client(), &TestStore::new(), &signed, &old).await.unwrap();
}

fn tag_of_greeter(tag: &str) -> (String, String) {
    ("acme/greeter".to_owned(), tag.to_owned())
}

fn reference_at(registry: &TestRegistry) -> OciReference {
    reference(&registry.host(), "acme/greeter:1.0")
}

/// Answers that a mirror may give, each of which the registry itself makes good.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_mirror_gives_out_wrongly_is_got_from_the_registry() {
    let registry = TestRegistry::start().await;
    let reference = reference_at(&registry);
    let published = publish(&client(), &reference, 100, Some(&KEY)).await;
    let bogus = |index: usize| {
        json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": format!("sha256:{index:064x}"), "size": 700,
               "artifactType": BUNDLE_MEDIA_TYPE})
    };
    let flood = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": (0..40).map(bogus).collect::<Vec<_>>()});
    for kind in ["referrers of nobody", "a referrer of somebody else", "no JSON", "another release"] {
        let mirror = {
            let flood = flood.to_string();
            TestRegistry::with_fault(move |seen, _| {
                let is_referrers = seen.path.contains("/referrers/");
                let is_index = |text: &str| with_header(full(200, text.to_owned()), "content-type", INDEX);
                match kind {
                    "referrers of nobody" if is_referrers => Some(is_index(&flood)),
                    "no JSON" if is_referrers => Some(is_index("{")),
                    _ => None,
                }
            })
            .await
        };
        // A mirror has what it mirrors, and what somebody else added to it.
        let (padding, key) = if kind == "another release" { (300, &*KEY) } else { (100, &*OTHER_KEY) };
        publish(&client(), &reference_at(&mirror), padding, Some(key)).await;
        let client = RegistryClient::builder()
            .http(HttpConfig::new().limits(limits()))
            .mirror(registry.host(), mirror.host())
            .build()
            .unwrap();
        let fetched = get(&client, &TestStore::new(), &crate::fixture::policy(), &reference).await;
        let fetched = fetched.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(fetched.manifest, published.manifest, "{kind}");
        assert!(mirror.contents().seen.iter().any(|seen| seen.path.contains("/referrers/")), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_go_to_the_registry_itself() {
    let elsewhere = TestRegistry::start().await;
    let target = format!("http://{}/v2/x/blobs/uploads/1", elsewhere.host());
    let registry = TestRegistry::with_fault(move |seen, _| {
        (seen.method == Method::POST).then(|| with_header(full(202, ""), "location", &target))
    })
    .await;
    let artifact = fumehood_registry::artifact::Artifact::new(component(10), Default::default()).unwrap();
    let error = client().push(&reference(&registry.host(), "acme/greeter:1.0"), &artifact, None).await.unwrap_err();
    assert!(matches!(error, RegistryError::Redirect { .. }), "{error}");
    assert_eq!(elsewhere.contents().seen.len(), 0);
}
