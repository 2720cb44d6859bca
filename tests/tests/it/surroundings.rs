//! The surroundings of a tool: variables, command line, clocks and randomness are those that were granted, and
//! nothing of the host's own is visible.

use std::collections::BTreeSet;
use std::time::Duration;

use fumehood::permission::{ClockStep, CommandLine, Environment, Seed};
use fumehood::{Call, Grant, Host, Load};
use fumehood_tests::component;
use serde_json::{Value, json};

/// A host with one program under one grant.
struct StartedHost(Host);

impl StartedHost {
    async fn new(program: &str, grant: Grant) -> Self {
        let host = Host::builder().concurrency(4).build().unwrap();
        host.load(Load::bytes("it", component(program).unwrap()).grant(grant)).await.unwrap();
        Self(host)
    }

    async fn says(&self, tool: &str, arguments: Value) -> Value {
        let result = self.0.call(Call::new(format!("it__{tool}"), arguments)).await;
        let text = result.text().unwrap_or_else(|| panic!("{tool} should succeed: {:?}", result.outcome));
        serde_json::from_str(&text).unwrap()
    }
}

#[tokio::test]
async fn only_granted_variables_and_arguments_are_seen() {
    // Cargo sets this variable for every test, so the host has something to hide.
    let canary = std::env::var("CARGO_PKG_NAME").expect("cargo runs this test");
    let bare = StartedHost::new("env-dump", Grant::none()).await;
    for tool in ["variables", "arguments"] {
        assert_eq!(bare.says(tool, json!({})).await, json!([]), "{tool}");
    }
    let environment = Environment::none().with("LANG", "en").unwrap().with_line("TZ=Etc/UTC").unwrap();
    let command_line = CommandLine::new(["it", "--fast", ""]).unwrap();
    let grant = Grant::none().with_environment(environment).with_command_line(command_line);
    let granted = StartedHost::new("env-dump", grant).await;
    assert_eq!(granted.says("variables", json!({})).await, json!([["LANG", "en"], ["TZ", "Etc/UTC"]]));
    assert_eq!(granted.says("arguments", json!({})).await, json!(["it", "--fast", ""]));
    for started in [bare, granted] {
        assert_eq!(started.says("folder", json!({})).await, Value::Null, "there is no working directory");
        for tool in ["variables", "arguments"] {
            let said = started.says(tool, json!({})).await.to_string();
            assert!(!said.contains(&canary) && !said.contains("CARGO"), "{said}");
        }
    }
}

#[tokio::test]
async fn an_environment_as_large_as_allowed_can_be_asked_for_again_and_again() {
    let environment = Environment::none().with("A", &"x".repeat(Environment::MAX_BYTES - 1)).unwrap();
    let granted = StartedHost::new("env-dump", Grant::none().with_environment(environment)).await;
    for _ in 0..100 {
        let said = granted.says("variables", json!({})).await;
        assert_eq!(said.pointer("/0/1").and_then(Value::as_str).map(str::len), Some(Environment::MAX_BYTES - 1));
    }
}

#[tokio::test]
async fn clocks_are_never_finer_than_granted() {
    check_clocks(Grant::none(), Duration::from_millis(1), 20).await;
    for (step, steps) in [(1, 1000), (100, 200), (50_000, 3)] {
        let step = Duration::from_micros(step);
        check_clocks(Grant::none().with_clock(ClockStep::new(step).unwrap()), step, steps).await;
    }
}

async fn check_clocks(grant: Grant, step: Duration, steps: u32) {
    let started = StartedHost::new("timer-res", grant).await;
    let step = u64::try_from(step.as_nanos()).unwrap();
    assert_eq!(started.says("resolution", json!({})).await, json!(step));
    for clock in ["monotonic", "wall"] {
        let seen = started.says(clock, json!({"steps": steps})).await.as_u64().unwrap();
        assert!(seen >= step && seen.is_multiple_of(step), "{clock}: saw {seen} ns with steps of {step} ns");
    }
}

#[tokio::test]
async fn a_finer_clock_is_really_finer() {
    let started = StartedHost::new("timer-res", Grant::none().with_clock(ClockStep::MIN)).await;
    let seen = started.says("monotonic", json!({"steps": 1000})).await.as_u64().unwrap();
    assert!(seen < 1_000_000, "the smallest of a thousand steps took {seen} ns");
}

const SOURCES: [&str; 4] = ["bytes", "random", "insecure", "seed"];

#[tokio::test]
async fn without_a_seed_no_randomness_comes_twice() {
    let started = StartedHost::new("rng-repeat", Grant::none()).await;
    for source in SOURCES {
        let mut seen = BTreeSet::new();
        for _ in 0..100 {
            assert!(seen.insert(started.says(source, json!({})).await.to_string()), "{source} repeats itself");
        }
    }
}

#[tokio::test]
async fn a_seed_gives_every_call_the_same_and_each_seed_others() {
    let mut seen = BTreeSet::new();
    for source in SOURCES {
        for seed in [1, 2] {
            let drawn = draw_twice(seed, source).await;
            assert_eq!(drawn, draw_twice(seed, source).await, "{source} of another host with the seed {seed}");
            assert!(seen.insert(drawn), "{source} with the seed {seed} repeats another");
        }
    }
}

async fn draw_twice(seed: u64, source: &str) -> String {
    let started = StartedHost::new("rng-repeat", Grant::none().with_seed(Seed::from(seed))).await;
    let first = started.says(source, json!({})).await;
    let second = started.says(source, json!({})).await;
    assert_eq!(first, second, "{source} of one host with the seed {seed}");
    first.to_string()
}
