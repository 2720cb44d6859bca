//! Logins: the way to a token, its use and refresh, and those that are refused.

use std::time::Duration;

use fumehood_core::call::CallContext;
use fumehood_core::tool::name::Namespace;
use fumehood_mcp::{
    ClientSecret, Credentials, Endpoint, Login, LoginError, OAuthOptions, Remote, RemoteOptions, logout,
};
use fumehood_transport::Url;
use tempfile::TempDir;

use crate::authorized_server::AuthorizedServer;

const PATIENCE: Duration = Duration::from_secs(60);

fn options(folder: &TempDir) -> OAuthOptions {
    let hint = "log in with the command".to_owned();
    OAuthOptions { file: folder.path().join("logins/a.json"), hint, ..OAuthOptions::default() }
}

fn remote(server: &AuthorizedServer, options: &OAuthOptions) -> Remote {
    let endpoint = Endpoint::Http { url: server.url(), credentials: Credentials::OAuth(options.clone()) };
    Remote::new(
        Namespace::parse("behind").unwrap(),
        endpoint,
        RemoteOptions { patience: PATIENCE, ..RemoteOptions::default() },
    )
}

/// Returns a client that goes where it is sent, and follows nothing by itself.
pub(crate) fn browser() -> reqwest::Client {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let tls = tls.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    let none = reqwest::redirect::Policy::none();
    reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().redirect(none).build().unwrap()
}

/// Goes where a browser is sent, and returns the status.
async fn visit(url: &Url) -> u16 {
    browser().get(url.clone()).send().await.unwrap().status().as_u16()
}

/// Logs in as a person who agrees.
async fn log_in(server: &AuthorizedServer, options: &OAuthOptions) -> Result<(), LoginError> {
    let login = Login::begin(&server.url(), options).await?;
    let back = server.agree(login.url());
    let finishing = tokio::spawn(login.finish(PATIENCE));
    assert_eq!(visit(&back).await, 200);
    finishing.await.unwrap()
}

fn error_of(error: &dyn std::error::Error) -> String {
    error.to_string()
}

#[tokio::test]
async fn a_login_gives_access_until_it_is_forgotten() {
    let server = AuthorizedServer::start();
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder);
    let before = remote(&server, &options).tools().await.unwrap_err();
    assert_eq!(error_of(&before), format!("{} requires a login: log in with the command", server.base));
    log_in(&server, &options).await.unwrap();
    let tools = remote(&server, &options).tools().await.unwrap();
    assert_eq!(tools.len(), 1);
    // Tokens of one server are not sent to another one.
    let other = AuthorizedServer::start();
    remote(&other, &options).tools().await.unwrap_err();
    assert!(logout(&options).unwrap() && !logout(&options).unwrap());
    remote(&server, &options).tools().await.unwrap_err();
}

#[tokio::test]
async fn refreshes_tokens_before_they_expire() {
    let server = AuthorizedServer::start();
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder);
    server.change(|behaviour| behaviour.lifetime = 2);
    log_in(&server, &options).await.unwrap();
    // More than half of its life.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    server.change(|behaviour| behaviour.lifetime = 3600);
    for _ in 0..2 {
        assert_eq!(remote(&server, &options).tools().await.unwrap().len(), 1);
    }
    let exchanges = server.requests().iter().filter(|line| *line == "POST /token").count();
    assert_eq!(exchanges, 2, "the code, and one refresh");
    server.revoke();
    let refused = remote(&server, &options).tools().await.unwrap_err();
    assert!(error_of(&refused).contains("requires a login"), "{refused}");
}

#[tokio::test]
async fn the_challenge_says_where_and_for_what_to_log_in() {
    let server = AuthorizedServer::start();
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder);
    server.change(|behaviour| {
        (behaviour.metadata_path, behaviour.scope) = ("/elsewhere/metadata.json", Some("tools extra"));
    });
    let login = Login::begin(&server.url(), &options).await.unwrap();
    let scopes =
        Url::parse(login.url()).unwrap().query_pairs().find(|(name, _)| name == "scope").unwrap().1.into_owned();
    assert_eq!(scopes, "tools extra");
    server.change(|behaviour| behaviour.lifetime = 0);
    log_in(&server, &options).await.unwrap();
    // The refresh finds the same way.
    assert_eq!(remote(&server, &options).tools().await.unwrap().len(), 1);
    // What is configured comes first.
    let own = OAuthOptions { scopes: vec!["read".to_owned()], ..options };
    let login = Login::begin(&server.url(), &own).await.unwrap();
    assert!(login.url().contains("scope=read&") || login.url().ends_with("scope=read"), "{}", login.url());
}

#[tokio::test]
async fn no_scope_is_asked_for_that_nobody_wants() {
    let server = AuthorizedServer::start();
    let folder = tempfile::tempdir().unwrap();
    server.change(|behaviour| (behaviour.names_scope, behaviour.offered) = (false, vec!["tools", "admin"]));
    let login = Login::begin(&server.url(), &options(&folder)).await.unwrap();
    let asked = Url::parse(login.url()).unwrap();
    assert!(asked.query_pairs().all(|(name, value)| name != "scope" || value.is_empty()), "{asked}");
}

#[tokio::test]
async fn a_document_that_names_the_issuer_gets_no_secret() {
    let real = AuthorizedServer::start();
    let hostile = AuthorizedServer::start();
    let folder = tempfile::tempdir().unwrap();
    hostile.change(|behaviour| {
        behaviour.authorization_server = Some(format!("{}/.well-known/x", hostile.base));
        behaviour.forged = Some(("/.well-known/x", real.base.clone()));
    });
    let configured = OAuthOptions {
        client_id: Some("registered".to_owned()),
        client_secret: Some(ClientSecret::new("s3cret".to_owned())),
        authorization_server: Some(real.base.clone()),
        ..options(&folder)
    };
    // Without a secret to lose, the login would go there.
    Login::begin(&hostile.url(), &OAuthOptions { client_secret: None, ..configured.clone() }).await.unwrap();
    let refused = Login::begin(&hostile.url(), &configured).await.unwrap_err();
    assert!(matches!(refused, LoginError::Issuer(_)), "{refused}");
}

#[tokio::test]
async fn a_document_that_names_the_issuer_gets_no_token_for_refreshes() {
    let server = AuthorizedServer::start();
    let hostile = AuthorizedServer::start();
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder);
    server.change(|behaviour| behaviour.lifetime = 0);
    log_in(&server, &options).await.unwrap();
    hostile.change(|behaviour| behaviour.forged = Some(("/.well-known/x", server.base.clone())));
    server.change(|behaviour| behaviour.authorization_server = Some(format!("{}/.well-known/x", hostile.base)));
    let asked = server.requests().len();
    remote(&server, &options).tools().await.unwrap_err();
    let of_hostile = hostile.requests();
    assert!(of_hostile.contains(&"GET /.well-known/x".to_owned()), "{of_hostile:?}");
    assert!(!of_hostile.contains(&"POST /token".to_owned()), "{of_hostile:?}");
    assert!(server.requests().iter().skip(asked).all(|line| line != "POST /token"));
    // The login is still there for the server that goes back.
    server.change(|behaviour| behaviour.authorization_server = None);
    assert_eq!(remote(&server, &options).tools().await.unwrap().len(), 1);
}

#[tokio::test]
async fn documents_do_not_change_who_issued_a_login() {
    let server = AuthorizedServer::start();
    let hostile = AuthorizedServer::start();
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder);
    server.change(|behaviour| behaviour.lifetime = 0);
    log_in(&server, &options).await.unwrap();
    server.change(|behaviour| behaviour.authorization_server = Some(format!("{}/.well-known/x", hostile.base)));
    // First a document with the right endpoint and no issuer, or another one; then that issuer's own endpoint.
    let token_endpoint = format!("{}/token", server.base);
    for issuer in [None, Some(hostile.base.clone())] {
        hostile.change(|behaviour| {
            behaviour.forged = Some(("/.well-known/x", issuer.unwrap_or_default()));
            behaviour.forged_token_endpoint = Some(token_endpoint.clone());
        });
        remote(&server, &options).tools().await.unwrap_err();
    }
    hostile.change(|behaviour| behaviour.forged_token_endpoint = None);
    remote(&server, &options).tools().await.unwrap_err();
    let of_hostile = hostile.requests();
    assert!(of_hostile.iter().filter(|line| *line == "GET /.well-known/x").count() >= 3, "{of_hostile:?}");
    assert!(!of_hostile.contains(&"POST /token".to_owned()), "{of_hostile:?}");
    server.change(|behaviour| behaviour.authorization_server = None);
    assert_eq!(remote(&server, &options).tools().await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_issuer_may_move_its_endpoint() {
    let server = AuthorizedServer::start();
    let other = AuthorizedServer::start();
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder);
    server.change(|behaviour| behaviour.lifetime = 0);
    log_in(&server, &options).await.unwrap();
    server.change(|behaviour| behaviour.token_endpoint = Some(format!("{}/token", other.base)));
    // It knows no tokens, but is asked for one.
    remote(&server, &options).tools().await.unwrap_err();
    assert_eq!(other.requests(), ["POST /token"]);
}

#[tokio::test]
async fn a_call_that_needs_another_scope_says_which() {
    let server = AuthorizedServer::start();
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder);
    log_in(&server, &options).await.unwrap();
    for (scope, said) in [
        ("admin tools:write", "requires a login with the scope `admin tools:write` for this call"),
        ("ädmin", "does not accept this login for the call"),
    ] {
        server.change(|behaviour| behaviour.call_scope = Some(scope));
        let client = remote(&server, &options);
        let tools = client.tools().await.unwrap();
        let call = tools[0].tool.validate(serde_json::json!({}).into()).unwrap();
        let error = client.call(call, CallContext::default()).await.outcome.unwrap_err();
        assert_eq!(error.message.to_string(), format!("the server `behind` {said}"));
        assert!(error.hint.as_deref().is_some_and(|hint| hint.ends_with("log in with the command")), "{error:?}");
    }
}

#[tokio::test]
async fn the_secret_of_a_registration_is_kept_for_refreshes() {
    let server = AuthorizedServer::start();
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder);
    server.change(|behaviour| (behaviour.secret, behaviour.lifetime) = (Some("of-the-registration"), 0));
    log_in(&server, &options).await.unwrap();
    for _ in 0..2 {
        assert_eq!(remote(&server, &options).tools().await.unwrap().len(), 1);
    }
    assert!(server.requests().iter().filter(|line| *line == "POST /token").count() > 2);
}

fn options_for(folder: &TempDir, issuer: &str) -> OAuthOptions {
    OAuthOptions {
        client_id: Some("registered".to_owned()),
        client_secret: Some(ClientSecret::new("s3cret".to_owned())),
        authorization_server: Some(issuer.to_owned()),
        ..options(folder)
    }
}

#[tokio::test]
async fn a_configured_secret_goes_to_its_authorization_server_alone() {
    let server = AuthorizedServer::start();
    let folder = tempfile::tempdir().unwrap();
    server.change(|behaviour| (behaviour.secret, behaviour.lifetime) = (Some("s3cret"), 0));
    let other = AuthorizedServer::start();
    let refused = Login::begin(&server.url(), &options_for(&folder, &other.base)).await.unwrap_err();
    assert!(matches!(refused, LoginError::Issuer(_)), "{refused}");
    assert!(refused.to_string().contains(&server.base) && !format!("{refused:?}").contains("s3cret"), "{refused:?}");
    let options = options_for(&folder, &server.base);
    assert!(!format!("{options:?}").contains("s3cret"), "{options:?}");
    log_in(&server, &options).await.unwrap();
    assert_eq!(remote(&server, &options).tools().await.unwrap().len(), 1);
    assert!(!server.requests().contains(&"POST /register".to_owned()));
    // It is not kept, because the configuration has it.
    let kept = std::fs::read_to_string(&options.file).unwrap();
    assert!(!kept.contains("s3cret"), "{kept}");
    // A server that names another authorization server later gets no refresh.
    let asked = server.requests().len();
    server.change(|behaviour| behaviour.authorization_server = Some(other.base.clone()));
    remote(&server, &options).tools().await.unwrap_err();
    assert!(!other.requests().contains(&"POST /token".to_owned()));
    assert!(server.requests().iter().skip(asked).all(|line| line != "POST /token"));
}

#[tokio::test]
async fn only_the_authorization_server_ends_a_login() {
    let server = AuthorizedServer::start();
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder);
    let login = Login::begin(&server.url(), &options).await.unwrap();
    let back = server.agree(login.url());
    let finishing = tokio::spawn(login.finish(PATIENCE));
    let with = |query: &str| {
        let mut url = back.clone();
        url.set_query(Some(query));
        url
    };
    let state = back.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    let forged = [
        with("code=mine&state=guess"),
        with("code=mine"),
        with(&format!("code=mine&state={state}&state=guess")),
        with("error=access_denied"),
        back.join("/other").unwrap(),
    ];
    for forged in &forged {
        assert_eq!(visit(forged).await, 400, "{forged}");
    }
    assert_eq!(visit(&back).await, 200);
    finishing.await.unwrap().unwrap();
    // The person who refuses.
    let login = Login::begin(&server.url(), &options).await.unwrap();
    let mut refusal = server.agree(login.url());
    let state = refusal.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    refusal.set_query(Some(&format!("error=access_denied&error_description=No&state={state}")));
    let finishing = tokio::spawn(login.finish(PATIENCE));
    visit(&refusal).await;
    let error = finishing.await.unwrap().unwrap_err();
    assert_eq!(error_of(&error), "the authorization server refused the login: access_denied (No)");
    // Nobody comes.
    let login = Login::begin(&server.url(), &options).await.unwrap();
    assert!(matches!(login.finish(Duration::from_millis(50)).await, Err(LoginError::Late(_))));
}

#[tokio::test]
async fn refuses_servers_that_lead_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder);
    for (what, part) in [
        ("resource", "resource mismatch"),
        ("no metadata", "does not name an authorization server"),
        ("plain challenge", "S256"),
        ("metadata service", "none published usable metadata"),
        ("unencrypted", "none published usable metadata"),
    ] {
        let server = AuthorizedServer::start();
        server.change(|behaviour| match what {
            "resource" => behaviour.resource = Some("https://bank.example/mcp".to_owned()),
            "no metadata" => behaviour.has_metadata = false,
            "plain challenge" => behaviour.methods = vec!["plain"],
            "metadata service" => behaviour.authorization_server = Some("https://169.254.169.254".to_owned()),
            _ => behaviour.authorization_server = Some("http://10.1.2.3".to_owned()),
        });
        let error = error_of(&Login::begin(&server.url(), &options).await.unwrap_err());
        assert!(error.contains(part), "{what}: {error}");
    }
    for (what, part) in [("token endpoint", "must not be asked"), ("huge", "more than")] {
        let server = AuthorizedServer::start();
        server.change(|behaviour| match what {
            "token endpoint" => behaviour.token_endpoint = Some("https://192.168.0.1/token".to_owned()),
            _ => behaviour.padding = 2 << 20,
        });
        let error = error_of(&log_in(&server, &options).await.unwrap_err());
        assert!(error.contains("login failed"), "{what}: {error} ({part})");
    }
    assert!(!options.file.exists(), "nothing is kept of a login that failed");
}

#[tokio::test]
async fn uses_a_configured_client_and_its_scopes() {
    let server = AuthorizedServer::start();
    let folder = tempfile::tempdir().unwrap();
    let scopes = vec!["tools".to_owned(), "more".to_owned()];
    let options = OAuthOptions { client_id: Some("registered".to_owned()), scopes, ..options(&folder) };
    let login = Login::begin(&server.url(), &options).await.unwrap();
    let url = Url::parse(login.url()).unwrap();
    assert!(url.query_pairs().any(|(name, value)| name == "scope" && value == "tools more"), "{url}");
    drop(login);
    log_in(&server, &options).await.unwrap();
    assert!(!server.requests().iter().any(|line| line.contains("/register")));
    assert_eq!(remote(&server, &options).tools().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_call_with_a_token_that_was_revoked_says_how_to_log_in() {
    use fumehood_core::call::CallContext;
    let server = AuthorizedServer::start();
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder);
    log_in(&server, &options).await.unwrap();
    let remote = remote(&server, &options);
    let tools = remote.tools().await.unwrap();
    server.revoke();
    let call = tools[0].tool.validate(serde_json::json!({}).into()).unwrap();
    let error = remote.call(call, CallContext::default()).await.outcome.unwrap_err();
    let said = format!("{error:?}");
    assert!(said.contains("log in with the command"), "{said}");
    // After another login the same server goes on.
    log_in(&server, &options).await.unwrap();
    let call = tools[0].tool.validate(serde_json::json!({}).into()).unwrap();
    let parts = remote.call(call, CallContext::default()).await.outcome.unwrap();
    assert_eq!(parts.len(), 1);
}
