//! An MCP server behind an authorization server, both at one address of loopback.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use fumehood_core::digest::Digest;
use fumehood_transport::Url;
use serde_json::{Value, json};

/// Behaviour of the servers that tests change.
#[derive(Debug, Clone)]
pub(crate) struct Behaviour {
    /// Lifetime of access tokens, in seconds.
    pub(crate) lifetime: u64,
    /// The resource that the metadata names, if not the server itself.
    pub(crate) resource: Option<String>,
    /// The authorization server that the metadata names, if not the same address.
    pub(crate) authorization_server: Option<String>,
    /// The path of a document of another party's that names that issuer and this server's own endpoints, if there is one.
    pub(crate) forged: Option<(&'static str, String)>,
    /// The address of tokens that it names, if not its own.
    pub(crate) forged_token_endpoint: Option<String>,
    /// The scopes that the authorization server offers.
    pub(crate) offered: Vec<&'static str>,
    /// True if the metadata of the server names the scope of its tools.
    pub(crate) names_scope: bool,
    /// True if it names the metadata at all.
    pub(crate) has_metadata: bool,
    /// The path of the metadata. Where it is not the usual one, only challenges of posted messages name it.
    pub(crate) metadata_path: &'static str,
    /// The scope that challenges name, if any.
    pub(crate) scope: Option<&'static str>,
    /// The scope that calls need and no token has, if any.
    pub(crate) call_scope: Option<&'static str>,
    /// The secret that a client gets at registration, if any, and has to send for tokens.
    pub(crate) secret: Option<&'static str>,
    /// The challenge methods of PKCE.
    pub(crate) methods: Vec<&'static str>,
    /// The address of tokens, if not its own.
    pub(crate) token_endpoint: Option<String>,
    /// Answers of the token endpoint are this much longer, in bytes.
    pub(crate) padding: usize,
}

/// The usual path of the metadata.
pub(crate) const METADATA: &str = "/.well-known/oauth-protected-resource/mcp";

/// The servers. They answer until the test ends.
pub(crate) struct AuthorizedServer {
    pub(crate) base: String,
    state: Arc<Mutex<State>>,
}

struct State {
    behaviour: Behaviour,
    /// Codes, each with the form of its request.
    codes: HashMap<String, HashMap<String, String>>,
    valid: Vec<String>,
    refresh: Option<String>,
    issued: usize,
    requests: Vec<String>,
}

impl AuthorizedServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let behaviour = Behaviour {
            lifetime: 3600,
            resource: None,
            authorization_server: None,
            forged: None,
            forged_token_endpoint: None,
            offered: Vec::new(),
            names_scope: true,
            has_metadata: true,
            metadata_path: METADATA,
            scope: None,
            call_scope: None,
            secret: None,
            methods: vec!["S256"],
            token_endpoint: None,
            padding: 0,
        };
        let codes = HashMap::new();
        let valid = Vec::new();
        let requests = Vec::new();
        let state = Arc::new(Mutex::new(State { behaviour, codes, valid, refresh: None, issued: 0, requests }));
        let shared = Arc::clone(&state);
        let own = base.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&shared);
                let base = own.clone();
                std::thread::spawn(move || serve(stream.unwrap(), &state, &base));
            }
        });
        Self { base, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.base)
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.state.lock().unwrap().behaviour);
    }

    /// Stops accepting all tokens.
    pub(crate) fn revoke(&self) {
        let mut state = self.state.lock().unwrap();
        state.valid.clear();
        state.refresh = None;
    }

    /// Returns the first lines of all requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }

    /// Does what a person in a browser does, who agrees: returns the address to which the browser is sent back.
    pub(crate) fn agree(&self, login: &str) -> Url {
        let login = Url::parse(login).unwrap();
        assert!(login.as_str().starts_with(&format!("{}/authorize?", self.base)), "{login}");
        let form: HashMap<String, String> = login.query_pairs().into_owned().collect();
        assert_eq!((form["response_type"].as_str(), form["code_challenge_method"].as_str()), ("code", "S256"));
        assert_eq!(form["resource"], self.url());
        let mut back = Url::parse(&form["redirect_uri"]).unwrap();
        assert_eq!(back.host_str(), Some("127.0.0.1"));
        let code = format!("code-{}", form["state"]);
        back.query_pairs_mut().append_pair("code", &code).append_pair("state", &form["state"]);
        self.state.lock().unwrap().codes.insert(code, form);
        back
    }
}

/// Answers requests of a connection.
fn serve(mut stream: TcpStream, state: &Mutex<State>, base: &str) {
    let mut bytes = Vec::new();
    let (head, body) = loop {
        let mut buffer = [0; 4096];
        let Some(read) = stream.read(&mut buffer).ok().filter(|read| *read > 0) else { return };
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
        if body.len() >= length.map_or(0, |length| length.trim().parse().unwrap()) {
            break (head.to_owned(), body.to_owned());
        }
    };
    let (status, headers, body) = state.lock().unwrap().answer(&head, &body, base);
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let _client_left = stream.write_all(format!("{head}{body}").as_bytes());
}

impl State {
    fn success(body: Value) -> (u16, String, String) {
        (200, String::new(), body.to_string())
    }

    fn answer(&mut self, head: &str, body: &str, base: &str) -> (u16, String, String) {
        let line = head.lines().next().unwrap_or_default();
        self.requests.push(line.trim_end_matches(" HTTP/1.1").to_owned());
        let path = line.split(' ').nth(1).unwrap_or_default();
        let behaviour = self.behaviour.clone();
        match path {
            "/mcp" => self.mcp(head, body, base),
            path if path == behaviour.metadata_path && behaviour.has_metadata => Self::success(json!({
                "resource": behaviour.resource.unwrap_or_else(|| format!("{base}/mcp")),
                "authorization_servers": [behaviour.authorization_server.unwrap_or_else(|| base.to_owned())],
                "scopes_supported": if behaviour.names_scope { json!(["tools"]) } else { Value::Null },
            })),
            path if behaviour.forged.as_ref().is_some_and(|(forged, _)| *forged == path) => Self::success(json!({
                "issuer": behaviour.forged.map(|(_, issuer)| issuer).filter(|issuer| !issuer.is_empty()),
                "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": behaviour.forged_token_endpoint.unwrap_or_else(|| format!("{base}/token")),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            })),
            "/.well-known/oauth-authorization-server" if behaviour.has_metadata => Self::success(json!({
                "issuer": base,
                "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": behaviour.token_endpoint.unwrap_or_else(|| format!("{base}/token")),
                "registration_endpoint": format!("{base}/register"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": behaviour.methods,
                "scopes_supported": behaviour.offered,
            })),
            "/register" => {
                let asked: Value = serde_json::from_str(body).unwrap();
                assert_eq!(asked["token_endpoint_auth_method"], "none");
                let redirects = asked["redirect_uris"].clone();
                let mut registered = json!({ "client_id": "registered", "redirect_uris": redirects });
                if let Some(secret) = behaviour.secret {
                    registered["client_secret"] = secret.into();
                }
                (201, String::new(), registered.to_string())
            }
            "/token" => self.token(head, body, base),
            _ => (404, String::new(), "{}".to_owned()),
        }
    }

    fn mcp(&self, head: &str, body: &str, base: &str) -> (u16, String, String) {
        let token = head.lines().find_map(|line| line.strip_prefix("authorization: Bearer "));
        if token.is_none_or(|token| self.valid.iter().all(|valid| valid != token)) {
            let Behaviour { has_metadata, metadata_path: path, scope, .. } = self.behaviour;
            if path != METADATA && head.starts_with("GET ") {
                return (405, String::new(), String::new());
            }
            let pointer = if has_metadata { format!(" resource_metadata=\"{base}{path}\"") } else { String::new() };
            let scope = scope.map(|scope| format!(", scope=\"{scope}\"")).unwrap_or_default();
            return (401, format!("www-authenticate: Bearer{pointer}{scope}\r\n"), "{}".to_owned());
        }
        let Ok(message) = serde_json::from_str::<Value>(body) else { return (405, String::new(), String::new()) };
        let mut answer = match message["method"].as_str() {
            Some("initialize") => json!({ "result": {
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "behind-a-login", "version": "1" },
            }}),
            Some("tools/list") => json!({ "result": { "tools": [{
                "name": "whoami", "description": "Says who asks", "inputSchema": { "type": "object" },
            }]}}),
            Some("tools/call") if self.behaviour.call_scope.is_some() => {
                let scope = self.behaviour.call_scope.unwrap();
                let challenge = format!("www-authenticate: Bearer error=\"insufficient_scope\", scope=\"{scope}\"\r\n");
                return (403, challenge, "{}".to_owned());
            }
            Some("tools/call") => json!({ "result": { "content": [{ "type": "text", "text": "you" }] } }),
            Some("server/discover") => json!({ "error": { "code": -32601, "message": "no such method" } }),
            _ => return (202, String::new(), String::new()),
        };
        (answer["jsonrpc"], answer["id"]) = ("2.0".into(), message["id"].clone());
        (200, String::new(), answer.to_string())
    }

    /// Exchanges a code, with its verifier, or a refresh token.
    fn token(&mut self, head: &str, body: &str, base: &str) -> (u16, String, String) {
        let url = Url::parse(&format!("http://x/?{body}")).unwrap();
        let form: HashMap<String, String> = url.query_pairs().into_owned().collect();
        let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        let client = match self.behaviour.secret {
            None => field("client_id") == "registered",
            Some(secret) => {
                let basic = BASE64_STANDARD.encode(format!("registered:{secret}"));
                head.lines().any(|line| line == format!("authorization: Basic {basic}"))
            }
        };
        let is_for_this = field("resource") == format!("{base}/mcp") && client;
        let is_granted = match field("grant_type") {
            "authorization_code" => self.codes.remove(field("code")).is_some_and(|asked| {
                let challenge = BASE64_URL_SAFE_NO_PAD.encode(Digest::of(field("code_verifier").as_bytes()).as_bytes());
                asked["code_challenge"] == challenge && asked["redirect_uri"] == field("redirect_uri")
            }),
            "refresh_token" => self.refresh.as_deref() == Some(field("refresh_token")),
            _ => false,
        };
        if !is_for_this || !is_granted {
            return (400, String::new(), json!({ "error": "invalid_grant" }).to_string());
        }
        self.issued += 1;
        let access = format!("access-{}", self.issued);
        let refresh = format!("refresh-{}", self.issued);
        self.valid = vec![access.clone()];
        self.refresh = Some(refresh.clone());
        let padding = "x".repeat(self.behaviour.padding);
        let answer = json!({
            "access_token": access, "token_type": "Bearer", "expires_in": self.behaviour.lifetime,
            "refresh_token": refresh, "scope": "tools", "padding": padding,
        });
        (200, String::new(), answer.to_string())
    }
}
