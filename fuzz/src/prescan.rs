//! The scan of a component before it is compiled: its time and memory are bounded by the input size, and it neither
//! panics nor aborts.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use fumehood_runtime::{CompileBudget, Compiler, EngineProfile, LoadError, LoadOptions, Sandbox, SandboxConfig};
use tokio::runtime::Runtime;

/// Maximum time for one input. A fuzzer's inputs are small.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Returns a sandbox whose compiler does not exist, so that components that pass the scan are not compiled.
fn sandbox() -> &'static (Sandbox, Runtime) {
    static SANDBOX: OnceLock<(Sandbox, Runtime)> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        let compiler = Compiler::Child {
            program: "/nonexistent/compiler".into(),
            args: Vec::new(),
            budget: CompileBudget::default(),
        };
        let config =
            SandboxConfig { profile: EngineProfile::Plain, concurrency: 1, compiler, ..SandboxConfig::default() };
        let sandbox = Sandbox::new(config).expect("a sandbox");
        (sandbox, tokio::runtime::Builder::new_current_thread().build().expect("a runtime"))
    })
}

/// Scans a component. Bytes without a header get one, so that most inputs are scanned.
pub fn run(data: &[u8]) {
    const HEAD: &[u8] = b"\0asm\x0d\0\x01\0";
    let bytes = if data.starts_with(b"\0asm") { data.to_vec() } else { [HEAD, data].concat() };
    let (sandbox, runtime) = sandbox();
    let started = Instant::now();
    match runtime.block_on(sandbox.load(bytes, LoadOptions::default())) {
        Err(LoadError::Host(reason)) => panic!("{reason}"),
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(_) => panic!("there is no compiler"),
    }
    assert!(started.elapsed() < MAX_TIME, "{:?}", started.elapsed());
}
