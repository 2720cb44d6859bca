//! The example with other processes, which are this program: so it has no harness.

#[path = "../examples/isolated.rs"]
mod isolated;

fn main() -> std::process::ExitCode {
    isolated::main()
}
