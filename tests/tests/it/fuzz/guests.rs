//! A host that loads components, calls their tools, and checks the guarantees that hold for all of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fumehood::{Call, CallResult, ComponentError, ErrorKind, Host, Limits, Load, LoadError};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use super::cases::Random;

const DEADLINE: Duration = Duration::from_millis(40);
/// Slack of a busy machine beyond a deadline, and for compiling.
const PATIENCE: Duration = Duration::from_secs(10);
const MEMORY: usize = 8 << 20;
/// Memory that the process may hold more after all cases than after the first few.
const GROWTH: u64 = 256 << 20;
/// Number of loads after which everything that is kept once for all is in memory.
const WARM: u64 = 50;

/// A host, with counts of loads and calls, and the memory that it held.
pub(crate) struct Guests {
    runtime: Runtime,
    host: Host,
    loads: u64,
    calls: u64,
    /// Number of calls that ended by themselves.
    ended: u64,
    /// Counts of the reasons for which components were refused.
    refused: BTreeMap<String, u64>,
    held: u64,
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}

impl Guests {
    pub(crate) fn new() -> Self {
        let limits = Limits::default().deadline(DEADLINE).memory(MEMORY).fuel(1 << 40);
        let host = Host::builder().concurrency(4).memory_ceiling(MEMORY).limits(limits).build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { runtime, host, loads: 0, calls: 0, ended: 0, refused: BTreeMap::new(), held: 0 }
    }

    /// Loads a component, calls all of its tools, and unloads it.
    pub(crate) fn try_one(&mut self, bytes: Vec<u8>, random: &mut Random) {
        self.loads += 1;
        if self.loads == WARM {
            self.held = resident();
        }
        let started = Instant::now();
        let name = format!("it-{}", self.loads);
        let loaded = self.runtime.block_on(self.host.load(Load::bytes(name.clone(), bytes)));
        assert!(started.elapsed() < PATIENCE, "loading took {:?}", started.elapsed());
        if let Err(error) = loaded {
            *self.refused.entry(refused(&error)).or_default() += 1;
            return;
        }
        let tools: Vec<_> =
            self.host.tools().iter().map(|tool| (tool.full_name().to_owned(), tool.definition().clone())).collect();
        for (tool, definition) in tools {
            let arguments = arguments(definition.input_schema.expose_raw(), random);
            let result = self.runtime.block_on(self.host.call(Call::new(tool, arguments.to_string())));
            self.calls += 1;
            let was_stopped = result.error().is_some_and(|error| error.kind == ErrorKind::Deadline);
            self.ended += u64::from(!was_stopped);
            contained(&result);
        }
        assert!(self.host.unload(&name));
    }

    /// Checks the memory of the process, prints the counts, and returns the number of calls.
    pub(crate) fn end(self) -> u64 {
        println!(
            "{} loads, {} calls, {} of them ended by themselves; refused: {:?}",
            self.loads, self.calls, self.ended, self.refused
        );
        if self.held > 0 {
            let now = resident();
            assert!(now < self.held + GROWTH, "{} MiB, after {} MiB", now >> 20, self.held >> 20);
        }
        self.calls
    }
}

/// Describes a refusal in a word or two. It must be the component's fault, not the host's.
fn refused(error: &LoadError) -> String {
    let LoadError::Component { source, .. } = error else {
        assert!(!matches!(error, LoadError::Host), "{error:?}");
        return first_word(error);
    };
    assert!(!matches!(**source, ComponentError::Host(_) | ComponentError::Compiler(_)), "{error:?}");
    if let ComponentError::Describe(failure) = &**source {
        assert_ne!(failure.kind, ErrorKind::Host, "{failure:?}");
        return format!("Describe {}", failure.kind);
    }
    first_word(source)
}

fn first_word(error: &impl std::fmt::Debug) -> String {
    if std::env::var_os("FUMEHOOD_FUZZ_CASE").is_some() {
        println!("refused: {error:?}");
    }
    format!("{error:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}

fn contained(result: &CallResult) {
    let metadata = &result.metadata;
    assert!(metadata.duration < DEADLINE + PATIENCE, "{result:?}");
    assert!(metadata.peak_memory <= MEMORY, "{result:?}");
    if let Some(error) = result.error() {
        assert_ne!(error.kind, ErrorKind::Host, "{result:?}");
    } else {
        assert!(metadata.duration <= DEADLINE, "one that ends too late has failed: {result:?}");
    }
}

/// Returns an object with a value for each property, mostly of about the right type.
fn arguments(schema: &Value, random: &mut Random) -> Value {
    let mut arguments = Map::new();
    for name in schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name) {
        let number = random.number();
        let value = match random.below(6) {
            0 => json!(number as u8),
            1 => json!(number as i32),
            2 => json!((number as i64).to_string()),
            3 => json!(f64::from(number as u32) / 7.0),
            4 => json!("text"),
            _ => json!(0),
        };
        arguments.insert(name.clone(), value);
    }
    Value::Object(arguments)
}
