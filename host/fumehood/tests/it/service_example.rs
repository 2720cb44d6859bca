//! Runs the example of a service, and uses it as its clients do.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

#[path = "../../examples/service.rs"]
mod service;

/// Sends one request, and returns the response with its head.
async fn request(address: std::net::SocketAddr, line: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let text = format!("{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_have_one_component_and_stores_of_their_own() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let client = async move {
        let tools = request(address, "GET /tenants/acme/tools", "").await;
        assert!(tools.starts_with("HTTP/1.1 200") && tools.contains("\"name\":\"write\""), "{tools}");
        let note = r#"{"title": "milk", "text": "two"}"#;
        let written = request(address, "POST /tenants/acme/tools/write", note).await;
        assert!(written.starts_with("HTTP/1.1 200"), "{written}");
        let listed = request(address, "POST /tenants/acme/tools/list", "{}").await;
        assert!(listed.contains("milk"), "{listed}");
        let listed = request(address, "POST /tenants/initech/tools/list", "{}").await;
        assert!(listed.starts_with("HTTP/1.1 200") && !listed.contains("milk"), "{listed}");
        let refused = request(address, "POST /tenants/acme/tools/write", "{}").await;
        assert!(refused.starts_with("HTTP/1.1 422"), "{refused}");
        let unknown = request(address, "POST /tenants/nobody/tools/list", "{}").await;
        assert!(unknown.starts_with("HTTP/1.1 404"), "{unknown}");
        stop.send(()).unwrap();
    };
    let stopped = async { stopped.await.unwrap_or_default() };
    let (served, ()) = tokio::join!(service::serve(listener, stopped), client);
    served.unwrap();
}
