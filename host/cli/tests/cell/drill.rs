//! The drill: parts of a cell are lost one after the other, and an operator sees which, and when they are back.

use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Answer, ask, call};
use super::harness::{Cell, wait_until};
use super::log::Log;

/// What an operator sees of a gateway.
struct Console<'a> {
    address: &'a str,
    /// The number of lines of its log that were shown.
    shown: usize,
}

impl Console<'_> {
    fn readiness(&self) -> Answer {
        ask(self.address, "GET /readyz", "", "")
    }

    /// Returns the value of a metric.
    fn metric(&self, name: &str) -> f64 {
        let text = ask(self.address, "GET /metrics", "", "").body;
        let text = text.as_str().unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// Waits until this part is named as lost, and checks that calls are refused for a while and that their callers are told so.
    fn check_loss(&self, part: &str) {
        let began = Instant::now();
        wait_until(part, || self.readiness().body["lost"] == json!([part]));
        println!("\n`/readyz` says 503 and `{part}` after {}", elapsed(began));
        let answer = call(self.address, "calculator__add", r#"{"a": 3, "b": 5}"#);
        assert_eq!((answer.status, answer.kind(), answer.retry_after), (503, "unavailable", true), "{answer:?}");
        println!("a call: 503, `Retry-After`, \"{}\"", answer.detail());
    }

    /// Waits until calls succeed, and the gateway says that they do.
    fn check_return(&self) {
        let began = Instant::now();
        wait_until("ready", || self.readiness().status == 200);
        println!("\n`/readyz` says 200 after {}", elapsed(began));
        wait_until("a call", || call(self.address, "calculator__add", r#"{"a": 3, "b": 5}"#).status == 200);
    }

    /// Prints the new lines of the gateway's log, once one of them has this text.
    fn print_log(&mut self, cell: &Cell, text: &str) {
        let new = |said: String| said.lines().skip(self.shown).map(str::to_owned).collect::<Vec<_>>();
        wait_until(text, || new(cell.said("g1")).iter().any(|line| line.contains(text)));
        let lines = new(cell.said("g1"));
        lines.iter().for_each(|line| println!("log: {line}"));
        self.shown += lines.len();
    }
}

fn elapsed(began: Instant) -> String {
    format!("{:.1} s", began.elapsed().as_secs_f64())
}

fn crash_log(cell: &mut Cell) -> bool {
    let Log::Postgres(server) = &mut cell.log else { return false };
    server.crash().unwrap();
    true
}

fn restore_log(cell: &mut Cell) {
    let Log::Postgres(server) = &mut cell.log else { return };
    server.run().unwrap();
}

#[test]
fn an_operator_sees_which_part_is_lost() {
    let Some(mut cell) = Cell::start() else { return };
    cell.record_in_postgres();
    cell.worker("w1", 4);
    cell.worker("w2", 4);
    let address = cell.gateway("");
    let mut console = Console { address: &address, shown: 0 };
    println!("\n### All is well");
    console.check_return();
    console.print_log(&cell, "serving");
    assert_eq!((console.metric("fumehood_cell_connected"), console.metric("fumehood_event_log_up")), (1.0, 1.0));
    wait_until("both workers", || console.metric("fumehood_cell_workers") == 2.0);
    assert_eq!(console.metric(r#"fumehood_cell_worker_places{worker="w1"}"#), 4.0);

    println!("\n### A worker is killed");
    cell.kill("w1");
    wait_until("the loss", || console.metric("fumehood_cell_workers_lost_total") == 1.0);
    assert_eq!(console.readiness().status, 200, "the other one takes calls");
    println!("\n`fumehood_cell_workers` is {}", console.metric("fumehood_cell_workers"));
    console.print_log(&cell, "worker=w1");

    println!("\n### The last worker is killed");
    cell.kill("w2");
    console.check_loss("workers");
    console.print_log(&cell, "worker=w2");

    println!("\n### A worker is started");
    cell.worker("w1", 4);
    console.check_return();
    console.print_log(&cell, "a worker joined");

    println!("\n### NATS is killed");
    cell.stop_nats();
    console.check_loss("nats");
    assert_eq!(console.metric("fumehood_cell_connected"), 0.0);
    console.print_log(&cell, "the connection to NATS has a fault");

    println!("\n### NATS is started");
    cell.start_nats();
    console.check_return();
    console.print_log(&cell, "the connection to NATS changed");

    if crash_log(&mut cell) {
        println!("\n### PostgreSQL crashes");
        console.check_loss("event_log");
        assert_eq!(console.metric("fumehood_event_log_up"), 0.0);
        console.print_log(&cell, "cannot write to a store");
        std::thread::sleep(Duration::from_millis(500));

        println!("\n### PostgreSQL is started");
        restore_log(&mut cell);
        console.check_return();
        console.print_log(&cell, "a store works again");
        wait_until("the backlog", || console.metric("fumehood_event_log_records_waiting") == 0.0);
    }
    assert!(cell.recorded("calculator__add", "ok") > 0);
}
