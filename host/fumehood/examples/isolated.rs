//! A service that lets other processes compile components and run their calls.
//!
//! `cargo run -p fumehood --example isolated`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::process::ExitCode;

use fumehood::{BuildError, Call, Compiler, Host, Load, Workers};
use serde_json::json;

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist");

pub(crate) fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("compile-component") => fumehood::serve_compiler(),
        Some("run-worker") => fumehood::serve_worker(),
        _ => serve(),
    }
}

fn isolated_host() -> Result<Host, BuildError> {
    let compiler = Compiler::this_program(["compile-component"]);
    let workers = Workers::this_program(["run-worker"]);
    Host::builder().compiler(compiler).workers(workers).build()
}

fn serve() -> ExitCode {
    match call() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn call() -> Result<(), Box<dyn std::error::Error>> {
    let host = isolated_host()?;
    let component = host.load(Load::path(format!("{TOOLS}/calculator.wasm"))).await?;
    if !component.is_isolated() {
        return Err("it should run in another process".into());
    }
    let result = host.call(Call::new("calculator__add", json!({"a": 3, "b": 5}))).await;
    println!("{}", result.text().ok_or("it should have a result")?);
    Ok(())
}
