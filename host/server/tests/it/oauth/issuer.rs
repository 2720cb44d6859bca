//! An authorization server on loopback, as far as resource servers see it: metadata and keys.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// An issuer. It answers until the test ends.
pub(crate) struct Issuer {
    pub(crate) url: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    keys: Mutex<String>,
    /// The address of the keys in the metadata, if it is not `/jwks`.
    jwks: Mutex<Option<String>>,
    delay: Mutex<Duration>,
    fetched: AtomicUsize,
}

impl Issuer {
    pub(crate) fn with_keys(keys: &[Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let issuer = Self { url: url.clone(), state: Arc::default() };
        issuer.publish(keys);
        let state = Arc::clone(&issuer.state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let state = Arc::clone(&state);
                let url = url.clone();
                std::thread::spawn(move || {
                    let mut request = [0; 4096];
                    let read = stream.read(&mut request).unwrap_or(0);
                    let request = String::from_utf8_lossy(&request[..read]).into_owned();
                    let (status, body) = state.answer(&request, &url);
                    let head = format!(
                        "HTTP/1.1 {status} X\r\nlocation: {url}/jwks\r\ncontent-length: {}\r\n\r\n",
                        body.len()
                    );
                    let _client_left = stream.write_all(format!("{head}{body}").as_bytes());
                });
            }
        });
        issuer
    }

    /// Publishes these keys from now on.
    pub(crate) fn publish(&self, keys: &[Value]) {
        self.publish_text(json!({ "keys": keys }).to_string());
    }

    pub(crate) fn publish_text(&self, text: String) {
        *self.state.keys.lock().unwrap() = text;
    }

    /// Names another address of the keys.
    pub(crate) fn move_keys(&self, url: &str) {
        *self.state.jwks.lock().unwrap() = Some(url.to_owned());
    }

    /// Answers this much later from now on.
    pub(crate) fn delay(&self, delay: Duration) {
        *self.state.delay.lock().unwrap() = delay;
    }

    /// Returns how often the keys were fetched.
    pub(crate) fn fetched(&self) -> usize {
        self.state.fetched.load(Ordering::SeqCst)
    }
}

impl State {
    fn answer(&self, request: &str, url: &str) -> (u16, String) {
        let path = request.split(' ').nth(1).unwrap_or_default();
        match path {
            "/.well-known/oauth-authorization-server" => {
                let jwks = self.jwks.lock().unwrap().clone().unwrap_or_else(|| format!("{url}/jwks"));
                (200, json!({ "issuer": url, "jwks_uri": jwks }).to_string())
            }
            "/jwks" => {
                self.fetched.fetch_add(1, Ordering::SeqCst);
                let delay = *self.delay.lock().unwrap();
                let keys = self.keys.lock().unwrap().clone();
                std::thread::sleep(delay);
                (200, keys)
            }
            "/redirect" => (302, String::new()),
            _ => (404, String::new()),
        }
    }
}
