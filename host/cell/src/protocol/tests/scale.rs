//! Throughput of a cell of many workers in virtual time: the real choice of workers, with costs that are given.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::protocol::{ANNOUNCE_EVERY, Announcement, NoWorker, Offer, Roster, Ticket};
use fumehood_core::digest::Digest;

const PLACES: u32 = 8;
const CORES: usize = 2;
/// Time of a call at a worker, and the part of it that a gateway is busy with it, in microseconds.
const CALL_US: u64 = 1_000;
const GATEWAY_US: u64 = 25;
/// Time on the network, one way, in microseconds.
const NETWORK_US: u64 = 100;
/// Time until a caller that was told that the cell is full calls again, in microseconds.
const AGAIN_US: u64 = 1_000;
const END_US: u64 = 2_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Announce(usize),
    Call,
    Arrive(usize),
    Leave(usize),
    Answer(usize),
}

struct Cell {
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    roster: Roster,
    names: Vec<std::sync::Arc<str>>,
    /// Calls that the gateway has at each worker, and calls at the worker itself.
    open: Vec<usize>,
    running: Vec<u32>,
    /// The times at which the cores of each worker are free.
    cores: Vec<[u64; CORES]>,
    gateway_free: u64,
    random: u64,
    done: u64,
    refused: u64,
}

fn offer() -> Offer {
    Offer { component: Digest::of(b"c"), powers: Digest::of(b"p") }
}

impl Cell {
    fn new(workers: usize, callers: usize) -> Self {
        let mut cell = Self {
            now: 0,
            events: BinaryHeap::new(),
            sequence: 0,
            roster: Roster::default(),
            names: (0..workers).map(|index| format!("w{index}").into()).collect(),
            open: vec![0; workers],
            running: vec![0; workers],
            cores: vec![[0; CORES]; workers],
            gateway_free: 0,
            random: 1,
            done: 0,
            refused: 0,
        };
        (0..workers).for_each(|worker| cell.at(0, Event::Announce(worker)));
        (0..callers).for_each(|_| cell.at(1, Event::Call));
        cell
    }

    fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence, event)));
    }

    /// Returns the time at which the gateway is done with half of its part of a call.
    fn gateway(&mut self) -> u64 {
        self.gateway_free = self.gateway_free.max(self.now) + GATEWAY_US / 2;
        self.gateway_free
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Announce(worker) => {
                let running = self.running[worker];
                let ticket = Ticket { run: 1, epoch: 0 };
                let offers = vec![offer()];
                let announcement =
                    Announcement { version: 2, sequence: 1, ticket, places: PLACES, running, draining: false, offers };
                let name = self.names[worker].clone();
                self.roster.on_announcement(Duration::from_micros(self.now), name, announcement);
                self.at(self.now + u64::try_from(ANNOUNCE_EVERY.as_micros()).unwrap(), Event::Announce(worker));
            }
            Event::Call => {
                self.random =
                    self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let open = &self.open;
                let own = |name: &str| open[name[1..].parse::<usize>().unwrap()];
                match self.roster.choose(&offer(), self.random, own, |_| false) {
                    Ok(chosen) => {
                        let worker: usize = chosen.worker[1..].parse().unwrap();
                        self.open[worker] += 1;
                        let sent = self.gateway();
                        self.at(sent + NETWORK_US, Event::Arrive(worker));
                    }
                    Err(NoWorker::Full) => {
                        self.refused += 1;
                        self.at(self.now + AGAIN_US, Event::Call);
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
            Event::Arrive(worker) => {
                self.running[worker] += 1;
                let core = (0..CORES).min_by_key(|core| self.cores[worker][*core]).unwrap();
                let ends = self.cores[worker][core].max(self.now) + CALL_US;
                self.cores[worker][core] = ends;
                self.at(ends, Event::Leave(worker));
            }
            Event::Leave(worker) => {
                self.running[worker] -= 1;
                self.at(self.now + NETWORK_US, Event::Answer(worker));
            }
            Event::Answer(worker) => {
                self.open[worker] -= 1;
                self.roster.on_ended(&self.names[worker].clone());
                self.done += 1;
                let told = self.gateway();
                self.at(told, Event::Call);
            }
        }
    }

    /// Returns the calls in a second.
    fn run(mut self) -> (f64, u64) {
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            if time > END_US {
                break;
            }
            self.now = time;
            self.step(event);
        }
        (self.done as f64 * 1e6 / END_US as f64, self.refused)
    }
}

#[test]
fn throughput_is_linear_to_eight_workers_and_bends_at_the_gateway() {
    println!("| workers | callers | calls/s | of one worker, times |\n|---|---|---|---|");
    let mut of_one = None;
    let mut rates = Vec::new();
    for workers in [1, 2, 4, 8, 16, 32, 64] {
        let callers = workers * 4;
        let (rate, refused) = Cell::new(workers, callers).run();
        let of_one = *of_one.get_or_insert(rate);
        println!("| {workers} | {callers} | {rate:.0} | {:.1} |", rate / of_one);
        assert_eq!(refused, 0, "{workers} workers have places for {callers} callers");
        rates.push((workers, rate / of_one));
    }
    for (workers, factor) in rates {
        let share = factor / workers as f64;
        // One gateway is done with 1 s / 25 µs = 40,000 calls in a second, which is as much as 20 of these workers.
        assert!(workers > 8 || share > 0.85, "{workers} workers: {factor:.1}");
        assert!(workers < 32 || factor < 26.0, "{workers} workers: {factor:.1}");
    }
}
