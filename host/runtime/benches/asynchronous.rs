//! The cost of asynchronous calls, compared with synchronous ones in a worker and with the engine alone, measured in turn in one
//! run.
//!
//! `cargo bench -p fumehood-runtime --bench asynchronous`

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a bench prints, and stops by panicking")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use fumehood::{Call, Host, Isolation, Load, Workers};
use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime::{Config, Engine, Store};

const WORKER: &str = "run-worker";
const ROUNDS: usize = 10_000;
const WARM_UP: usize = 500;

/// A typed function without Fumehood: a fresh instance for each call, with fuel and nothing else.
struct Raw {
    engine: Engine,
    component: InstancePre<()>,
}

impl Raw {
    fn new(bytes: &[u8], is_asynchronous: bool) -> Self {
        let mut config = Config::new();
        config.consume_fuel(true).concurrency_support(is_asynchronous).wasm_component_model_async(is_asynchronous);
        let engine = Engine::new(&config).expect("an engine");
        let component = Component::new(&engine, bytes).expect("a component");
        let mut linker = Linker::new(&engine);
        linker.define_unknown_imports_as_traps(&component).expect("imports");
        let component = linker.instantiate_pre(&component).expect("a linked component");
        Self { engine, component }
    }

    async fn greet(&self) -> Duration {
        let start = Instant::now();
        let mut store = Store::new(&self.engine, ());
        store.set_fuel(1_000_000).expect("fuel");
        let instance = self.component.instantiate_async(&mut store).await.expect("an instance");
        let greet = instance.get_typed_func::<(&str,), (String,)>(&mut store, "greet").expect("the function");
        let (greeting,) = greet.call_async(&mut store, ("Ada",)).await.expect("a result");
        let took = start.elapsed();
        assert_eq!(greeting, "Hello, Ada");
        took
    }
}

async fn call(host: &Host, tool: &str, arguments: &str) -> Duration {
    let start = Instant::now();
    let result = host.call(Call::new(tool, arguments)).await;
    let took = start.elapsed();
    assert!(result.is_ok(), "{result:?}");
    took
}

fn median_us(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

async fn load_all(host: &Host, synchronous: &[u8], asynchronous: &[u8]) {
    let components = [
        ("synchronous", synchronous.to_vec()),
        ("asynchronous", asynchronous.to_vec()),
        ("contract-1", fumehood_tests::contract("echo").expect("the program")),
        ("contract-2", fumehood_tests::component("asynchronous/parts").expect("the program")),
    ];
    for (name, bytes) in components {
        host.load(Load::bytes(name, bytes).isolation(Isolation::Process)).await.expect("it loads");
    }
}

async fn measure() {
    let synchronous = fumehood_tests::component("asynchronous/synchronous").expect("the program");
    let asynchronous = fumehood_tests::component("asynchronous/tasks").expect("the program");
    let host = Host::builder().workers(Workers::this_program([WORKER])).build().expect("a host");
    load_all(&host, &synchronous, &asynchronous).await;
    let raw_synchronous = Raw::new(&synchronous, false);
    let raw_asynchronous = Raw::new(&asynchronous, true);
    let name = r#"{"name":"Ada"}"#;
    let rows = [
        "wasmtime alone, synchronous",
        "wasmtime alone, asynchronous",
        "typed function in a worker, synchronous (WASI 0.2)",
        "typed function in a worker, asynchronous (WASI 0.3)",
        "contract 0.1 in a worker, one part",
        "contract 0.2 in a worker, a stream without parts",
        "contract 0.2 in a worker, a stream of two parts",
    ];
    let mut times = rows.map(|_| Vec::with_capacity(ROUNDS));
    for round in 0..ROUNDS + WARM_UP {
        let took = [
            raw_synchronous.greet().await,
            raw_asynchronous.greet().await,
            call(&host, "synchronous__greet", name).await,
            call(&host, "asynchronous__greet", name).await,
            call(&host, "contract-1__echo", "{}").await,
            call(&host, "contract-2__nothing", "{}").await,
            call(&host, "contract-2__parts", "{}").await,
        ];
        if round >= WARM_UP {
            times.iter_mut().zip(took).for_each(|(times, took)| times.push(took));
        }
    }
    let medians = times.each_mut().map(|times| median_us(times));
    let [alone, _, worker, ..] = medians;
    println!("{:<52} {:>8} {:>18} {:>22}", "p50", "µs", "/ wasmtime alone", "/ synchronous, worker");
    for (row, median) in rows.iter().zip(medians) {
        println!("{row:<52} {median:>8.1} {:>18.2} {:>22.2}", median / alone, median / worker);
    }
}

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|first| first == WORKER) {
        return fumehood::serve_worker();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(measure());
    ExitCode::SUCCESS
}
