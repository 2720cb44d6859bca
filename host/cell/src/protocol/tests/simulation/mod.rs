//! A simulation of one gateway and several workers over a bad network, from a seed: the same seed gives the same run.
//!
//! Messages are lost, duplicated, delayed and reordered; workers crash, come back, are stopped and go on. `FUMEHOOD_CELL_SEED`
//! is the first seed, and `FUMEHOOD_CELL_SEEDS` the number of them.

mod gateway;
mod worker;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::protocol::{
    ANNOUNCE_EVERY, Admission, Announcement, AttemptId, Conclusion, GatewayCalls, GatewayEffect, Introduction,
    Introductions, Offer, OpenCall, PROTOCOL_VERSION, RetryPlan, Roster, Ticket, ToGateway, ToWorker, WorkerCalls,
    WorkerEffect, WorkerName,
};
use fumehood_core::digest::Digest;

const CALLS: usize = 30;
const WORKERS: usize = 3;
const PLACES: usize = 4;
const MAX_OVERRUN_MS: u64 = 1_000;
/// Time after which nothing new goes wrong, so that everything can end.
const TROUBLE_ENDS_MS: u64 = 6_000;
const END_MS: u64 = 14_000;
/// Time that a guest takes that heeds nothing.
const HANGS_MS: u64 = 6_000;

/// Pseudo-random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[derive(Clone)]
enum Event {
    Arrive(usize),
    Cancel(usize),
    ToWorker(usize, Down),
    ToGateway(usize, Up),
    GuestEnds { worker: usize, run: u64, attempt: AttemptId, ok: bool },
    WorkerTick(usize),
    GatewayTick,
    Announce(usize),
    Crash(usize),
    Restart(usize),
    Stop(usize),
    Continue(usize),
}

#[derive(Clone)]
enum Down {
    /// The question to a run, with the number of the exchange of keys.
    Hello { nonce: u64, run: u64 },
    /// A message in a session, which has the number of its exchange.
    In { nonce: u64, message: Box<Message> },
}

#[derive(Clone)]
enum Message {
    Call { call: usize, attempt: AttemptId, ticket: Ticket, remaining_ms: u64 },
    Cancel(AttemptId),
    Alive,
}

#[derive(Clone)]
enum Up {
    Welcome { nonce: u64, run: u64 },
    Message(ToGateway, Option<bool>),
    Announcement(Announcement),
}

struct Guest {
    call: usize,
    /// True if it heeds neither its deadline nor a cancel.
    hangs: bool,
}

struct Worker {
    name: WorkerName,
    run: u64,
    calls: WorkerCalls,
    /// The number of the last announcement of the run.
    announced: u64,
    /// The exchanges of keys that the run has answered.
    sessions: HashSet<u64>,
    guests: HashMap<AttemptId, Guest>,
    is_up: bool,
    is_stopped: bool,
    /// Events that wait until the process goes on.
    held: Vec<Event>,
}

struct Call {
    arrived: u64,
    remaining_ms: u64,
    is_repeatable: bool,
    plan: RetryPlan,
    attempt: Option<(AttemptId, WorkerName)>,
    /// Ends that the caller was told: exactly one in the end.
    told: Vec<(u64, &'static str)>,
    guests: u32,
    finished_ok: u32,
}

#[derive(Default, Debug)]
struct Tally(BTreeMap<&'static str, u64>);

struct World {
    random: Random,
    now: u64,
    sequence: u64,
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Option<Event>>,
    gateway: GatewayCalls,
    introductions: Introductions,
    /// The newest session of the gateway with each worker, and its run.
    sessions: HashMap<WorkerName, (u64, u64)>,
    roster: Roster,
    workers: Vec<Worker>,
    calls: Vec<Call>,
    attempts: HashMap<AttemptId, usize>,
    late: HashSet<AttemptId>,
    losing: u64,
    tally: Tally,
}

fn offer() -> Offer {
    Offer { component: Digest::of(b"component"), powers: Digest::of(b"powers") }
}

impl World {
    fn new_worker(index: usize, run: u64) -> Worker {
        Worker {
            name: format!("w{index}").into(),
            run,
            calls: WorkerCalls::new(run, PLACES),
            announced: 0,
            sessions: HashSet::new(),
            guests: HashMap::new(),
            is_up: true,
            is_stopped: false,
            held: Vec::new(),
        }
    }

    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let workers = (0..WORKERS).map(|index| Self::new_worker(index, random.next())).collect();
        let calls = (0..CALLS)
            .map(|_| {
                let is_repeatable = random.is(30);
                let arrived = 300 + random.below(5_000);
                let remaining_ms = 200 + random.below(2_500);
                let plan = RetryPlan::new(is_repeatable);
                Call {
                    arrived,
                    remaining_ms,
                    is_repeatable,
                    plan,
                    attempt: None,
                    told: Vec::new(),
                    guests: 0,
                    finished_ok: 0,
                }
            })
            .collect();
        let losing = [0, 0, 1, 10][random.below(4) as usize];
        let mut world = Self {
            random,
            now: 0,
            sequence: 0,
            queue: BinaryHeap::new(),
            events: Vec::new(),
            gateway: GatewayCalls::default(),
            introductions: Introductions::default(),
            sessions: HashMap::new(),
            roster: Roster::default(),
            workers,
            calls,
            attempts: HashMap::new(),
            late: HashSet::new(),
            losing,
            tally: Tally::default(),
        };
        world.plan();
        world
    }

    fn plan(&mut self) {
        for call in 0..CALLS {
            let arrived = self.calls[call].arrived;
            self.at(arrived, Event::Arrive(call));
            if self.random.is(15) {
                let at = arrived + self.random.below(1_500);
                self.at(at, Event::Cancel(call));
            }
        }
        self.at(0, Event::GatewayTick);
        for worker in 0..WORKERS {
            self.at(worker as u64 * 3, Event::WorkerTick(worker));
            self.at(worker as u64 * 7, Event::Announce(worker));
        }
        for _ in 0..self.random.below(6) {
            let worker = self.random.below(WORKERS as u64) as usize;
            let at = self.random.below(TROUBLE_ENDS_MS);
            let lasts = self.random.below(1_500);
            if self.random.is(50) {
                self.at(at, Event::Crash(worker));
                self.at(at + lasts, Event::Restart(worker));
            } else {
                self.at(at, Event::Stop(worker));
                self.at(at + lasts, Event::Continue(worker));
            }
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        let index = self.events.len();
        self.events.push(Some(event));
        self.sequence += 1;
        self.queue.push(Reverse((time.max(self.now), self.sequence, index)));
    }

    fn time(&self) -> Duration {
        Duration::from_millis(self.now)
    }

    /// Sends something over the network.
    fn send(&mut self, event: Event) {
        let is_troubled = self.now < TROUBLE_ENDS_MS;
        if is_troubled && self.random.is(self.losing) {
            return;
        }
        let copies = if is_troubled && self.random.is(self.losing) { 2 } else { 1 };
        for _ in 0..copies {
            let delay = match self.random.below(100) {
                0 if is_troubled => self.random.below(900),
                1..10 => self.random.below(30),
                _ => self.random.below(3),
            };
            self.at(self.now + delay, event.clone());
        }
    }

    fn run(mut self, seed: u64) -> Tally {
        while let Some(Reverse((time, _, index))) = self.queue.pop() {
            if time > END_MS {
                break;
            }
            self.now = time;
            if let Some(event) = self.events[index].take() {
                self.step(event);
            }
        }
        self.check(seed);
        self.tally
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Arrive(call) => self.start_attempt(call),
            Event::Cancel(call) => {
                if let Some((attempt, _)) = self.calls[call].attempt.clone() {
                    let effects = self.gateway.cancel(self.time(), attempt);
                    self.carry_out(effects);
                }
            }
            Event::GatewayTick => {
                let now = self.time();
                self.roster.on_tick(now);
                let effects = self.gateway.on_tick(now);
                self.carry_out(effects);
                self.at(self.now + 20, Event::GatewayTick);
            }
            Event::ToGateway(worker, up) => self.gateway_receives(worker, up),
            Event::Crash(worker) => {
                let worker = &mut self.workers[worker];
                (worker.is_up, worker.is_stopped) = (false, false);
                worker.guests.clear();
                worker.sessions.clear();
                worker.announced = 0;
                worker.held.clear();
            }
            Event::Restart(index) => {
                let run = self.random.next();
                let worker = &mut self.workers[index];
                if !worker.is_up {
                    (worker.is_up, worker.run, worker.calls) = (true, run, WorkerCalls::new(run, PLACES));
                    self.at(self.now, Event::WorkerTick(index));
                    self.at(self.now, Event::Announce(index));
                }
            }
            Event::Stop(worker) => self.workers[worker].is_stopped = self.workers[worker].is_up,
            Event::Continue(worker) => {
                self.workers[worker].is_stopped = false;
                for event in std::mem::take(&mut self.workers[worker].held) {
                    self.at(self.now, event);
                }
            }
            Event::ToWorker(index, _)
            | Event::WorkerTick(index)
            | Event::Announce(index)
            | Event::GuestEnds { worker: index, .. } => match &mut self.workers[index] {
                worker if worker.is_stopped => worker.held.push(event),
                worker if worker.is_up => self.worker_step(index, event),
                _ => {}
            },
        }
    }

    fn check(&self, seed: u64) {
        for (index, call) in self.calls.iter().enumerate() {
            let [(at, end)] = call.told.as_slice() else {
                panic!("seed {seed}: call {index} was told {:?}", call.told);
            };
            let bound = call.arrived + call.remaining_ms + MAX_OVERRUN_MS;
            assert!(*at <= bound, "seed {seed}: call {index} ended as {end} at {at}, after {bound}");
            let most = if call.is_repeatable { 2 } else { 1 };
            assert!(call.guests <= most, "seed {seed}: call {index} ran {} times", call.guests);
            assert!(*end != "ok" || call.finished_ok > 0, "seed {seed}: call {index} is ok and did not finish");
        }
        for worker in self.workers.iter().filter(|worker| worker.is_up) {
            assert_eq!(worker.calls.running(), 0, "seed {seed}: a guest runs on");
            assert_eq!(self.gateway.open_at(&worker.name), 0, "seed {seed}: an attempt is open");
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn every_call_ends_once_and_truly() {
    let first = number("FUMEHOOD_CELL_SEED").unwrap_or(1);
    let count = number("FUMEHOOD_CELL_SEEDS").unwrap_or(2_000);
    let mut sum: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in first..first + count {
        let run = std::panic::catch_unwind(|| World::new(seed).run(seed));
        let tally = run.unwrap_or_else(|_| panic!("failed with FUMEHOOD_CELL_SEED={seed} FUMEHOOD_CELL_SEEDS=1"));
        for (end, times) in tally.0 {
            *sum.entry(end).or_default() += times;
        }
    }
    println!("{count} seeds from {first}, {CALLS} calls each: {sum:?}");
    // A simulation in which nothing goes wrong proves nothing.
    for end in ["ok", "interrupted", "deadline", "cancelled", "late", "sent again", "stopped", "unavailable"] {
        assert!(count < 500 || sum.get(end).is_some_and(|times| *times > 10), "{end}: {sum:?}");
    }
}
