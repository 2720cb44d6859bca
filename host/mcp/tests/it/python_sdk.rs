//! A login at a server that the Python SDK of MCP made, with the authorization server of the same SDK.
//!
//! `tests/mcp/setup DIR` installs the SDK, and `FUMEHOOD_MCP_TOOLS=DIR` says where it is; DIR counts from the root of the project.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fumehood_core::call::CallContext;
use fumehood_core::tool::name::Namespace;
use fumehood_mcp::{Credentials, Endpoint, Login, OAuthOptions, Remote, RemoteOptions};
use fumehood_tests::skip::skip;

use crate::login::browser;

const PATIENCE: Duration = Duration::from_secs(60);

/// The server, which ends when this is dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Starts the server; `None` if the SDK is not installed.
    fn start() -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = std::env::var_os("FUMEHOOD_MCP_TOOLS").map(|folder| root.join(folder));
        let python = folder.map(|folder| folder.join("python/bin/python")).filter(|python| python.exists())?;
        let mut command = Command::new(python);
        command.arg(root.join("tests/mcp/auth_server.py")).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        Some(Self { child, url: url.trim().to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[tokio::test]
async fn a_login_at_a_server_of_the_python_sdk_works() {
    let Some(server) = Server::start() else {
        return skip("mcp-tools", "FUMEHOOD_MCP_TOOLS names no folder with the Python SDK of MCP");
    };
    let folder = tempfile::tempdir().unwrap();
    let options = OAuthOptions { file: folder.path().join("tokens.json"), ..OAuthOptions::default() };
    let remote = || {
        let endpoint = Endpoint::Http { url: server.url.clone(), credentials: Credentials::OAuth(options.clone()) };
        Remote::new(
            Namespace::parse("sdk").unwrap(),
            endpoint,
            RemoteOptions { patience: PATIENCE, ..RemoteOptions::default() },
        )
    };
    let refused = remote().tools().await.unwrap_err().to_string();
    assert!(refused.contains("requires a login"), "{refused}");
    // A browser whose owner agrees at once is sent back to this machine.
    let login = Login::begin(&server.url, &options).await.unwrap();
    let url = login.url().to_owned();
    let finishing = tokio::spawn(login.finish(PATIENCE));
    let back = browser().get(url).send().await.unwrap().headers()["location"].to_str().unwrap().to_owned();
    assert_eq!(browser().get(back).send().await.unwrap().status(), 200);
    finishing.await.unwrap().unwrap();
    let client = remote();
    let tools = client.tools().await.unwrap();
    assert_eq!(tools.iter().map(|tool| &*tool.foreign).collect::<Vec<_>>(), ["whoami"]);
    // Its tokens live for seconds, so that this call needs another one.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let call = tools[0].tool.validate(serde_json::json!({}).into()).unwrap();
    let answer = client.call(call, CallContext::default()).await.outcome.unwrap();
    assert!(format!("{answer:?}").contains("somebody who logged in"), "{answer:?}");
}
