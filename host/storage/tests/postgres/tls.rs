//! Encrypted connections: the server's certificate and its name are checked.

use std::sync::Arc;

use fumehood_storage::event_log::EventLog;
use fumehood_storage::postgres::{Server, ServerSettings};
use fumehood_tests::postgres::Postgres;

use crate::harness::writer;
use crate::suite::{record, write};

fn settings(url: &str, roots: Option<&str>) -> ServerSettings {
    ServerSettings {
        url: url.to_owned(),
        tls_roots: roots.map(|pem| pem.as_bytes().to_vec()),
        ..ServerSettings::default()
    }
}

fn to_pem(label: &str, der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[test]
fn encrypted_connections_check_the_certificate() {
    let Some(mut server) = Postgres::start().unwrap() else { return };
    server.shut_down().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["db.example".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["db.example".to_owned()]).unwrap();
    let certificate = to_pem("CERTIFICATE", made.cert.der());
    let other = to_pem("CERTIFICATE", other.cert.der());
    server.add_file("server.crt", &certificate).unwrap();
    server.add_file("server.key", &to_pem("PRIVATE KEY", &made.signing_key.serialize_der())).unwrap();
    server.set("ssl=on");
    server.run().unwrap();
    // Only encrypted connections from now on.
    server.add_file("pg_hba.conf", "hostssl all all 127.0.0.1/32 trust\n").unwrap();
    let server = Arc::new(server);
    let url = format!("postgres://fumehood@db.example:{}/postgres?hostaddr=127.0.0.1&sslmode=require", server.port());
    server.reload().unwrap();
    let open = |settings: &ServerSettings| EventLog::open_postgres(&Server::new(settings).unwrap(), &writer(1));
    let log = open(&settings(&url, Some(&certificate))).unwrap();
    write(&log, record(1)).unwrap();
    let error = open(&settings(&url, Some(&other))).unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    let error = open(&settings(&url.replace("db.example", "elsewhere.example"), Some(&certificate))).unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    let plain = url.replace("sslmode=require", "sslmode=disable");
    let error = open(&settings(&plain, None)).unwrap_err().to_string();
    assert!(error.contains("no encryption"), "{error}");
}
