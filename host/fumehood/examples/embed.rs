//! A service with a host inside: limits, events, a call that is cancelled, one that is stopped, and an orderly end.
//!
//! `cargo run -p fumehood --example embed`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use fumehood::{Call, Event, Host, Limits, Load, Observed};
use serde_json::json;

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limits = Limits::default().deadline(Duration::from_secs(2));
    let host = Host::builder().limits(limits).concurrency(16).build()?;
    host.load(Load::path(format!("{TOOLS}/calculator.wasm"))).await?;
    host.load(Load::path(format!("{TOOLS}/countdown.wasm")).named("slow")).await?;
    for tool in host.tools() {
        let description = tool.definition().description.to_sanitized();
        println!("{}: {}", tool.full_name(), description.lines().next().unwrap_or_default());
    }

    // The arguments of a model are text, and often wrong. The error contains what is needed to repair them.
    for arguments in [r#"{"a": 3, "b": 5}"#, r#"{"a": "3"}"#] {
        let result = host.call(Call::new("calculator__add", arguments)).await;
        println!("\n{arguments}\n{}", serde_json::to_string_pretty(&result)?);
    }

    // Events arrive while a call runs. A subscriber that reads too slowly loses some, and gets their number.
    let mut events = host.subscribe();
    let call = Call::new("slow__countdown", json!({"from": 3, "step_ms": 20})).actor("ann");
    let (result, ()) = tokio::join!(host.call(call), async {
        while let Some(Observed::Event(event)) = events.next().await {
            match event {
                Event::Progress { progress, .. } => {
                    println!("progress: {:?} {:?}", progress.fraction, progress.message)
                }
                Event::Finished { .. } => break,
                _ => {}
            }
        }
    });
    println!("counted down in {:?}", result.metadata.duration);

    // A call with limits of its own, stopped by one of them, and a call that its caller cancels.
    let long = json!({"from": 1000, "step_ms": 0});
    let little = limits.fuel(50_000);
    let stopped = host.call(Call::new("slow__countdown", long).limits(little)).await;
    println!("{}", stopped.error().ok_or("it needs more fuel than that")?);
    let patience = tokio::time::sleep(Duration::from_millis(50));
    let given_up = host.call_until(Call::new("slow__countdown", json!({"from": 10, "step_ms": 100})), patience).await;
    println!("{}", given_up.error().ok_or("it takes longer than that")?);

    host.shutdown(Duration::from_millis(100)).await;
    Ok(())
}
