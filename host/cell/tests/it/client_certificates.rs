//! A NATS server that wants certificates of its clients.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use fumehood_cell::{CellError, CellTools, NodeKey, NodeOptions, NodePublicKey, ServerOptions, Worker};
use fumehood_core::call::Call;
use fumehood_core::tool::ToolProvider as _;

use super::bus::{gateway_options, worker_options};
use super::nats::{self, PATIENCE, create_certificate};
use super::test_tools::TestTool;

/// A server that lets in those who have one certificate.
struct Server {
    folder: tempfile::TempDir,
    port: u16,
    child: Child,
}

impl Server {
    fn start() -> Option<Self> {
        let program = nats::program()?;
        let folder = tempfile::tempdir().unwrap();
        let port = nats::free_port();
        let path = |name: &str| folder.path().join(name).display().to_string();
        create_certificate(folder.path(), "server");
        create_certificate(folder.path(), "client");
        let certificate = path("server.pem");
        let key = path("server.key");
        let clients = path("client.pem");
        let tls = format!("cert_file: {certificate:?}, key_file: {key:?}, ca_file: {clients:?}, verify: true");
        let file = folder.path().join("nats.conf");
        std::fs::write(&file, format!("listen: \"127.0.0.1:{port}\"\ntls {{ {tls} }}\n")).unwrap();
        let child = nats::spawn(Command::new(program).arg("--config").arg(file), port);
        Some(Self { folder, port, child })
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn node(
        &self,
        name: &str,
        key: NodeKey,
        peer: (&str, NodePublicKey),
        tls_identity: Option<(PathBuf, PathBuf)>,
    ) -> NodeOptions {
        let server = ServerOptions {
            nats: format!("tls://localhost:{}", self.port),
            prefix: "test".to_owned(),
            name: name.to_owned(),
            password: None,
            tls_roots: Some(self.folder().join("server.pem")),
            tls_identity,
        };
        NodeOptions { server, key: Arc::new(key), peers: BTreeMap::from([(peer.0.to_owned(), peer.1)]) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn key() -> NodeKey {
    NodeKey::generate().unwrap().0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_with_a_certificate_are_let_in() {
    let Some(server) = Server::start() else { return };
    let own = Some((server.folder().join("client.pem"), server.folder().join("client.key")));
    let gateway = key();
    let worker = key();
    let known_gateway = gateway.public();
    let known_worker = worker.public();
    let node = server.node("w", worker, ("g", known_gateway), own.clone());
    let worker = Worker::join(node, TestTool::echo(false, false), worker_options(1)).await.unwrap();
    tokio::spawn(async move { worker.serve(std::future::pending::<()>(), Duration::ZERO).await });
    let node = server.node("g", gateway, ("w", known_worker), own);
    let tools = CellTools::join(node, TestTool::echo(false, false), gateway_options()).await.unwrap();
    assert!(tools.wait_for_workers(PATIENCE).await);
    let result = tools.dispatch(Call::new("test__echo", r#"{"text": "hello"}"#)).await;
    assert!(result.is_ok(), "{result:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_without_or_with_another_are_refused() {
    let Some(server) = Server::start() else { return };
    let other = create_certificate(server.folder(), "other");
    for identity in [None, Some(other)] {
        let node = server.node("g", key(), ("w", key().public()), identity);
        let joining = CellTools::join(node, TestTool::echo(false, false), gateway_options());
        let refused = tokio::time::timeout(PATIENCE, joining).await.unwrap().map(drop).unwrap_err();
        assert!(matches!(refused, CellError::Connect { .. }), "{refused:?}");
    }
}
