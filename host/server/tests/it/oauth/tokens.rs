//! Tokens that are accepted, their tenants, and the answers to all others.

use std::time::Duration;

use serde_json::{Value, json};

use crate::oauth::issuer::Issuer;
use crate::oauth::keys::{SigningKey, in_seconds, unsigned, with_secret};
use crate::oauth::token_server::{INTERVAL, OWN_TOKEN, RESOURCE, TokenServer, options, tenants};

/// Returns claims that are as required.
fn claims(issuer: &Issuer) -> Value {
    json!({
        "iss": issuer.url, "aud": RESOURCE, "exp": in_seconds(300), "iat": in_seconds(0), "sub": "someone",
        "client_id": "client-of-app", "scope": "tools read",
    })
}

/// Returns these claims with one of them changed.
fn with(issuer: &Issuer, name: &str, value: impl Into<Value>) -> Value {
    let mut claims = claims(issuer);
    claims[name] = value.into();
    claims
}

#[tokio::test]
async fn accepts_tokens_of_every_algorithm() {
    let keys = [SigningKey::ed25519("ed"), SigningKey::p256("ec"), SigningKey::rsa("rsa")];
    let issuer = Issuer::with_keys(&keys.each_ref().map(SigningKey::jwk));
    let served = TokenServer::start(options(&issuer)).await;
    for key in &keys {
        assert_eq!(served.tenant_of(&key.sign(&claims(&issuer))).await.as_deref(), Ok("app"));
        let other = key.sign(&with(&issuer, "client_id", "client-of-other"));
        assert_eq!(served.tenant_of(&other).await.as_deref(), Ok("other"));
    }
    // Keys are fetched once, and tokens of tenants work beside them.
    assert_eq!(issuer.fetched(), 1);
    assert_eq!(served.tenant_of(OWN_TOKEN).await.as_deref(), Ok("own"));
}

#[tokio::test]
async fn tells_clients_where_to_get_a_token() {
    let issuer = Issuer::with_keys(&[SigningKey::ed25519("a").jwk()]);
    let served = TokenServer::start(options(&issuer)).await;
    let answer = served.ask("/name", None).await;
    let metadata = "https://tools.example.com/.well-known/oauth-protected-resource/mcp";
    assert_eq!(answer.status, 401);
    assert_eq!(answer.challenge, Some(format!("Bearer resource_metadata=\"{metadata}\"")));
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let answer = served.ask(path, None).await;
        let document: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!((answer.status, &document["resource"]), (200, &json!(RESOURCE)));
        assert_eq!(document["authorization_servers"], json!([issuer.url]));
    }
    assert_eq!(served.ask("/.well-known/oauth-protected-resource/other", None).await.status, 404);
    let answer = served.ask("/name", Some("no-jwt-at-all")).await;
    assert_eq!(answer.status, 401);
    assert!(answer.challenge.unwrap().contains("error=\"invalid_token\""));
    assert_eq!(issuer.fetched(), 0, "nothing is fetched for what is no token");
}

#[tokio::test]
async fn refuses_tokens_that_are_not_for_this_resource() {
    let key = SigningKey::p256("a");
    let foreign = SigningKey::p256("a");
    let issuer = Issuer::with_keys(&[key.jwk()]);
    let served = TokenServer::start(options(&issuer)).await;
    let jwk = key.jwk();
    for (what, token) in [
        ("wrong audience", key.sign(&with(&issuer, "aud", "https://other.example.com/mcp"))),
        ("no audience", key.sign(&with(&issuer, "aud", Value::Null))),
        ("wrong issuer", key.sign(&with(&issuer, "iss", "https://evil.example"))),
        ("expired", key.sign(&with(&issuer, "exp", in_seconds(-120)))),
        ("no expiry", key.sign(&with(&issuer, "exp", Value::Null))),
        ("not yet", key.sign(&with(&issuer, "nbf", in_seconds(120)))),
        ("none", unsigned(&claims(&issuer))),
        ("public key as secret", with_secret("a", jwk["x"].as_str().unwrap().as_bytes(), &claims(&issuer))),
        ("public key as secret, as text", with_secret("a", jwk.to_string().as_bytes(), &claims(&issuer))),
        ("signed by another", foreign.sign(&claims(&issuer))),
        (
            "identity token",
            key.sign_with_header(&json!({ "alg": "ES256", "kid": "a", "typ": "logout+jwt" }), &claims(&issuer)),
        ),
        ("algorithm of another key", key.sign_with_header(&json!({ "alg": "RS256", "kid": "a" }), &claims(&issuer))),
    ] {
        let answer = served.ask("/name", Some(&token)).await;
        assert_eq!(answer.status, 401, "{what}: {answer:?}");
        assert!(answer.challenge.unwrap().contains("error=\"invalid_token\""), "{what}");
    }
    let token = key.sign(&claims(&issuer));
    let (head, signature) = token.rsplit_once('.').unwrap();
    let tampered = format!("{}A.{signature}", &head[..head.len() - 1]);
    assert_eq!(served.tenant_of(&tampered).await, Err(401));
    assert_eq!(served.tenant_of(&token).await.as_deref(), Ok("app"));
}

#[tokio::test]
async fn requires_scopes() {
    let key = SigningKey::ed25519("a");
    let issuer = Issuer::with_keys(&[key.jwk()]);
    let scopes = vec!["tools".to_owned(), "write".to_owned()];
    let served = TokenServer::start(fumehood_server::oauth::ResourceServerOptions { scopes, ..options(&issuer) }).await;
    let answer = served.ask("/name", Some(&key.sign(&claims(&issuer)))).await;
    assert_eq!(answer.status, 403);
    let challenge = answer.challenge.unwrap();
    assert!(
        challenge.contains("error=\"insufficient_scope\"") && challenge.contains("scope=\"tools write\""),
        "{challenge}"
    );
    let token = key.sign(&with(&issuer, "scope", "write tools"));
    assert_eq!(served.tenant_of(&token).await.as_deref(), Ok("app"));
}

#[tokio::test]
async fn tokens_belong_to_tenants_of_the_configuration() {
    let key = SigningKey::ed25519("a");
    let issuer = Issuer::with_keys(&[key.jwk()]);
    let served = TokenServer::start(options(&issuer)).await;
    let known = key.sign(&claims(&issuer));
    let unknown = key.sign(&with(&issuer, "client_id", "app"));
    assert_eq!(served.tenant_of(&known).await.as_deref(), Ok("app"));
    assert_eq!(served.tenant_of(&unknown).await, Err(403));
    // A tenant that was taken away, with a token that is still valid.
    served.tenants.replace(tenants()[1..].to_vec()).unwrap();
    assert_eq!(served.tenant_of(&known).await, Err(403));
    let with_default = fumehood_server::oauth::ResourceServerOptions {
        default_tenant: Some("other".to_owned()),
        tenant_claim: "scope".to_owned(),
        ..options(&issuer)
    };
    let served = TokenServer::start(with_default).await;
    assert_eq!(served.tenant_of(&known).await.as_deref(), Ok("other"));
    let by_scope = key.sign(&with(&issuer, "scope", "read client-of-app"));
    assert_eq!(served.tenant_of(&by_scope).await.as_deref(), Ok("app"));
    let both = key.sign(&with(&issuer, "scope", "client-of-other client-of-app"));
    assert_eq!(served.tenant_of(&both).await, Err(403));
}

#[tokio::test]
async fn fetches_rotated_keys_and_not_more_often_than_it_may() {
    let first = SigningKey::ed25519("1");
    let second = SigningKey::ed25519("2");
    let issuer = Issuer::with_keys(&[first.jwk()]);
    let served = TokenServer::start(options(&issuer)).await;
    let before = first.sign(&claims(&issuer));
    let after = second.sign(&claims(&issuer));
    assert_eq!(served.tenant_of(&before).await.as_deref(), Ok("app"));
    // Unknown keys are asked for, and not at once for every token.
    for _ in 0..20 {
        assert_eq!(served.tenant_of(&after).await, Err(401));
    }
    let fetched = issuer.fetched();
    assert!(fetched <= 12, "{fetched}");
    issuer.publish(&[second.jwk()]);
    tokio::time::sleep(INTERVAL).await;
    assert_eq!(served.tenant_of(&after).await.as_deref(), Ok("app"));
    assert_eq!(served.tenant_of(&before).await, Err(401), "its key is not published any more");
}

#[tokio::test]
async fn many_tokens_at_once_fetch_keys_once() {
    let key = SigningKey::ed25519("a");
    let issuer = Issuer::with_keys(&[key.jwk()]);
    issuer.delay(Duration::from_millis(200));
    let served = std::sync::Arc::new(TokenServer::start(options(&issuer)).await);
    let token = key.sign(&claims(&issuer));
    let asking: Vec<_> = (0..16)
        .map(|_| {
            let served = std::sync::Arc::clone(&served);
            let token = token.clone();
            tokio::spawn(async move { served.tenant_of(&token).await })
        })
        .collect();
    for asked in asking {
        assert_eq!(asked.await.unwrap().as_deref(), Ok("app"));
    }
    assert_eq!(issuer.fetched(), 1);
}

#[tokio::test]
async fn keys_that_cannot_be_fetched_are_no_reason_to_let_anybody_in() {
    let key = SigningKey::ed25519("a");
    for broken in ["huge", "slow", "malformed", "redirected", "elsewhere", "plain"] {
        let issuer = Issuer::with_keys(&[key.jwk()]);
        match broken {
            "huge" => issuer.publish_text(format!("{{\"keys\":[],\"x\":\"{}\"}}", "x".repeat(2 << 20))),
            "slow" => issuer.delay(Duration::from_secs(30)),
            "malformed" => issuer.publish_text("<html>".to_owned()),
            "redirected" => issuer.move_keys(&format!("{}/redirect", issuer.url)),
            "elsewhere" => issuer.move_keys("https://169.254.169.254/latest/meta-data"),
            _ => issuer.move_keys("http://8.8.8.8/jwks"),
        }
        let served = TokenServer::start(options(&issuer)).await;
        let started = std::time::Instant::now();
        assert_eq!(served.tenant_of(&key.sign(&claims(&issuer))).await, Err(503), "{broken}");
        assert!(started.elapsed() < Duration::from_secs(25), "{broken}: {:?}", started.elapsed());
        // Those with a token of their own do not notice.
        assert_eq!(served.tenant_of(OWN_TOKEN).await.as_deref(), Ok("own"), "{broken}");
    }
}

#[tokio::test]
async fn an_issuer_that_is_another_one_is_not_believed() {
    let key = SigningKey::ed25519("a");
    let issuer = Issuer::with_keys(&[key.jwk()]);
    // The same server by another name: its metadata is of the first.
    let other = issuer.url.replace("127.0.0.1", "localhost");
    let named = fumehood_server::oauth::ResourceServerOptions { issuer: other.clone(), ..options(&issuer) };
    let served = TokenServer::start(named.clone()).await;
    let token = key.sign(&with(&issuer, "iss", other));
    assert_eq!(served.tenant_of(&token).await, Err(503));
    // Keys at an address that the operator named need no metadata.
    let jwks = Some(format!("{}/jwks", issuer.url));
    let served = TokenServer::start(fumehood_server::oauth::ResourceServerOptions { jwks, ..named }).await;
    assert_eq!(served.tenant_of(&token).await.as_deref(), Ok("app"));
}
