//! Assembles a program of `tests/programs` for tests that are not written in Rust: `assemble contract/echo OUT`.

use anyhow::{Context as _, Result};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: assemble PROGRAM OUT, such as `assemble contract/echo echo.wasm`";
    let program = arguments.next().context(usage)?;
    let out = arguments.next().context(usage)?;
    let bytes = match program.split_once('/') {
        Some(("contract", name)) => fumehood_tests::contract(name)?,
        Some(("capability", name)) => fumehood_tests::capability(name)?,
        _ => fumehood_tests::component(&program)?,
    };
    std::fs::write(&out, bytes).with_context(|| format!("cannot write {out}"))
}
