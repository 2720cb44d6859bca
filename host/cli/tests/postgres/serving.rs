//! Gateways under load whose server restarts, or that are killed: every acknowledged call is recorded once.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fumehood_tests::postgres::Postgres;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::gateway::{Gateway, PATIENCE, server};

/// Calls the calculator over HTTP. Returns the status and the id of the call; `None` if the gateway did not answer.
fn call(address: &str) -> Option<(u16, Value)> {
    let body = r#"{"a":3,"b":5}"#;
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let request = format!(
        "POST /v1/tools/calculator__add/calls HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split_whitespace().nth(1)?.parse().ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some((status, serde_json::from_str(body.get(body.find('{')?..=body.rfind('}')?)?).ok()?))
}

#[test]
fn calls_are_refused_until_the_server_is_back() {
    let Some((mut server, url)) = server() else { return };
    let gateway = Gateway::new(&url);
    let (_served, address) = gateway.serve();
    assert_eq!(call(&address).unwrap().0, 200);
    server.crash().unwrap();
    let (status, refused) = call(&address).unwrap();
    assert_ne!(status, 200, "{refused}");
    assert!(refused.to_string().contains("record"), "{refused}");
    server.run().unwrap();
    let began = Instant::now();
    while call(&address).unwrap().0 != 200 {
        assert!(began.elapsed() < PATIENCE, "the gateway does not recover");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_server_that_hangs_holds_no_call_for_long() {
    let Some((mut server, url)) = server() else { return };
    let gateway = Gateway::new(&url);
    let (_served, address) = gateway.serve();
    assert_eq!(call(&address).unwrap().0, 200);
    server.pause().unwrap();
    let began = Instant::now();
    let (status, refused) = call(&address).unwrap();
    // The database itself is given up after ten seconds.
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    assert_ne!(status, 200, "{refused}");
    assert!(refused.to_string().contains("has not answered within 1s"), "{refused}");
    server.resume().unwrap();
    let began = Instant::now();
    while call(&address).unwrap().0 != 200 {
        assert!(began.elapsed() < PATIENCE, "the gateway does not recover");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn another_server_is_named_until_the_next_start() {
    let Some((server, url)) = server() else { return };
    let gateway = Gateway::new(&url);
    let (served, address) = gateway.serve();
    assert_eq!(call(&address).unwrap().0, 200);
    let other = server.create_database("other").unwrap();
    let config = std::fs::read_to_string(gateway.path("fumehood.toml")).unwrap();
    std::fs::write(gateway.path("fumehood.toml"), config.replace(&url, &other)).unwrap();
    kill_process(Pid::from_child(&served.0), Signal::HUP).unwrap();
    let began = Instant::now();
    let said = || std::fs::read_to_string(gateway.path("serve.errors")).unwrap();
    while !said().contains("some changes in [storage] need a restart") {
        assert!(began.elapsed() < PATIENCE, "{}", said());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(call(&address).unwrap().0, 200);
    let calls = "SELECT count(*) FROM fumehood.records WHERE kind = 'tool_finished'";
    let began = Instant::now();
    while server.sql("fumehood", calls).unwrap() != "2" {
        assert!(began.elapsed() < PATIENCE, "the call is not recorded where the gateway was started");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn count_records(server: &Postgres, kind: &str) -> usize {
    let sql = format!(
        "SELECT count(DISTINCT call) FROM fumehood.records WHERE kind = '{kind}' AND status IS NOT DISTINCT FROM 'ok'"
    );
    server.sql("fumehood", &sql).unwrap().parse().unwrap()
}

#[test]
fn acknowledged_calls_are_recorded_once() {
    let Some((mut server, url)) = server() else { return };
    let one = Gateway::new(&url);
    let two = Gateway::new(&url);
    let (mut first, address_one) = one.serve();
    let (_second, address_two) = two.serve();
    let stop = AtomicBool::new(false);
    let answered: BTreeMap<u16, usize> = std::thread::scope(|scope| {
        let callers: Vec<_> = [&address_one, &address_two, &address_one, &address_two]
            .into_iter()
            .map(|address| {
                let stop = &stop;
                scope.spawn(move || {
                    let mut answered: BTreeMap<u16, usize> = BTreeMap::new();
                    while !stop.load(Ordering::Relaxed) {
                        let status = call(address).map_or(0, |(status, _)| status);
                        *answered.entry(status).or_default() += 1;
                        if status != 200 {
                            std::thread::sleep(Duration::from_millis(20));
                        }
                    }
                    answered
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(600));
        server.crash().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        server.run().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        first.0.kill().unwrap();
        std::thread::sleep(Duration::from_millis(500));
        stop.store(true, Ordering::Relaxed);
        let mut all = BTreeMap::new();
        for caller in callers {
            for (status, count) in caller.join().unwrap() {
                *all.entry(status).or_default() += count;
            }
        }
        all
    });
    drop(first);
    // Two started and finished records for each call that was answered, and none twice.
    let twice = server.sql("fumehood", "SELECT count(*) - count(DISTINCT id) FROM fumehood.records").unwrap();
    assert_eq!(twice, "0");
    let ok = answered.get(&200).copied().unwrap_or_default();
    assert!(
        ok > 20 && count_records(&server, "tool_finished") >= ok,
        "{answered:?}, {} finished",
        count_records(&server, "tool_finished")
    );
    println!("{answered:?}: {} finished calls are recorded", count_records(&server, "tool_finished"));
    let verified = one.succeed(&["log", "verify", "--writer-key", &two.key()]);
    assert_eq!(verified.stdout.matches("in order:").count(), 2, "{verified:?}");
}
