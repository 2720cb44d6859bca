//! Memory that hostile programs make the host's process hold, beyond what they were allowed.
//!
//! This is a single test in a program of its own, because it measures the process.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use fumehood::permission::http::{HttpGrant, HttpLimits};
use fumehood::{Call, ErrorKind, Grant, Host, Limits, Load};
use serde_json::json;

const MIB: u64 = 1 << 20;
/// Slack for an allocator and threads of a busy test machine.
const SLACK: u64 = 16 * MIB;

/// Returns the figure of this name in `/proc/self/status`, in bytes.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

/// Returns a component with a `producers` section of about this size, in values of one byte.
fn with_producers(bytes: usize) -> Vec<u8> {
    let mut section = wasm_encoder::ProducersSection::new();
    let mut field = wasm_encoder::ProducersField::new();
    for _ in 0..bytes / 4 {
        field.value("a", "1");
    }
    section.field("language", &field);
    let mut component = fumehood_tests::component("count").unwrap();
    wasm_encoder::ComponentSection::append_to_component(&section, &mut component);
    component
}

/// Checks that loading it takes hardly more memory than its bytes: a section that is too large is refused, and long
/// values are not kept.
async fn an_enormous_producers_section_is_refused_or_ignored(host: &Host) {
    for (bytes, is_refused) in [(15 << 20, true), (200 << 10, false)] {
        let component = with_producers(bytes);
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = status("VmRSS");
        let loaded = host.load(Load::bytes("producers", component)).await;
        let grown = status("VmHWM").saturating_sub(before);
        assert!(grown <= SLACK, "{bytes}: {} MiB", grown / MIB);
        match loaded {
            Err(error) => assert!(is_refused, "{bytes}: {error:?}"),
            Ok(component) => assert!(!is_refused && component.producers().is_empty(), "{bytes}"),
        }
    }
}

/// Number of kinds of handles that the program `keep-handles` can take.
const KINDS: u32 = 11;

/// Returns each kind by itself, and mixtures of them that are the same in every run: those with numbers of this remainder by two.
fn kinds_of_handles(remainder: u32) -> impl Iterator<Item = u32> {
    let numbers = (1..12_u32).filter(move |number| number % 2 == remainder);
    let mixtures = numbers.map(|number| number.wrapping_mul(0x9e37_79b9) >> (32 - KINDS)).filter(|kinds| *kinds != 0);
    (0..KINDS).map(|kind| 1 << kind).chain(mixtures)
}

/// Checks that what the host keeps behind handles counts toward the memory limit, whatever it is, and that the call is
/// ended with an error that names the limit.
async fn what_the_host_keeps_is_within_the_memory_limit(host: &Host) {
    const MEMORY: u64 = 16 * MIB;
    // Far more handles than would fit, and time until the memory of a slow machine is full.
    let limits = Limits::default().memory(MEMORY as usize).handles(1 << 20).deadline(Duration::from_secs(240));
    let rules = vec!["GET https://example.com/**".parse().unwrap()];
    let granted = Grant::none().with_http(HttpGrant::new(rules, Vec::new(), HttpLimits::default()).unwrap());
    // As many values as the headers of a request may have.
    for (remainder, name, grant, values) in [(0, "ungranted", Grant::none(), 49), (1, "granted", granted, 398)] {
        let load = Load::bytes(name, fumehood_tests::component("keep-handles").unwrap());
        host.load(load.limits(limits).grant(grant)).await.unwrap();
        for kinds in kinds_of_handles(remainder) {
            std::fs::write("/proc/self/clear_refs", "5").unwrap();
            let before = status("VmRSS");
            let result = host
                .call(Call::new(format!("{name}__run"), json!({"kinds": kinds, "size": MIB / 4, "values": values})))
                .await;
            let grown = status("VmHWM").saturating_sub(before);
            assert!(grown <= MEMORY + SLACK, "{name} {kinds:#b}: {} MiB", grown / MIB);
            let error = result.error().unwrap();
            assert_eq!(error.kind, ErrorKind::Memory, "{name} {kinds:#b}: {error:?}");
            assert!(error.message.as_str().contains("the host uses"), "{error:?}");
        }
    }
}

#[tokio::test]
async fn nothing_grows_past_what_was_allowed() {
    let host = Host::builder().concurrency(4).build().unwrap();
    an_enormous_producers_section_is_refused_or_ignored(&host).await;
    what_the_host_keeps_is_within_the_memory_limit(&host).await;
    let limits = Limits::default().deadline(Duration::from_millis(300));
    // Program, tool, and the maximum of its own memory that it may have filled.
    for (program, tool, own) in [
        // With the lifted result, which may take four times as much as is counted for it, and what the allocator keeps of those
        // before.
        ("typed-lists", "flags", 64 * MIB),
        ("typed-lists", "variants", 64 * MIB),
        ("typed-lists", "records", 64 * MIB),
        ("typed-lists", "lists", 64 * MIB),
        ("memory-bomb", "run", 64 * MIB),
        ("memory-grow", "run", 64 * MIB),
        ("table-grow", "run", 0),
        ("huge-result", "run", 64 * MIB),
        ("aliased-result", "run", 4 * MIB),
        ("poll-duplicates", "run", 8 * MIB),
        ("random-flood", "huge", 0),
        ("random-flood", "steady", 0),
        ("handle-leak", "run", 0),
        ("write-zeroes", "run", 0),
        ("stdout-flood", "run", 0),
    ] {
        let name = format!("{program}-{tool}");
        let load = Load::bytes(name.clone(), fumehood_tests::component(program).unwrap()).limits(limits);
        host.load(load).await.unwrap();
        // Writing 5 resets the peak to the present value (`proc_pid_clear_refs(5)`).
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = status("VmRSS");
        for _ in 0..3 {
            let arguments = match tool {
                "flags" => r#"{"n":120000}"#,
                "variants" => r#"{"n":250000}"#,
                "records" => r#"{"n":6000}"#,
                "lists" => r#"{"n":500}"#,
                _ => "{}",
            };
            host.call(Call::new(format!("{name}__{tool}"), arguments)).await;
        }
        let grown = status("VmHWM").saturating_sub(before);
        assert!(grown <= own + SLACK, "{name}: {} MiB over {} MiB", grown / MIB, own / MIB);
    }
}
