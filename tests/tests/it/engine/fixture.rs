//! A sandbox whose engine the tests use, and the verdict of its loader about a core module before anything is compiled.

use fumehood_runtime::{CompileBudget, Compiler, EngineProfile, LoadError, LoadOptions, Sandbox, SandboxConfig};
use tokio::runtime::Runtime;
use wasm_encoder::ComponentBuilder;
use wasmparser::{Validator, WasmFeatures};
use wasmtime::{Engine, Store};

/// Total fuel of a test. Fuel and epochs are on, as in calls.
const FUEL: u64 = 1 << 50;

pub(crate) struct Fixture {
    sandbox: Sandbox,
    runtime: Runtime,
}

impl Fixture {
    /// Creates a sandbox that allocates instances one by one: tests of the specification have memories that no call may
    /// have.
    pub(crate) fn new() -> Self {
        let profile = EngineProfile::Plain;
        // The tests compile modules themselves. A component that the loader accepts ends at a compiler that does not
        // exist.
        let compiler = Compiler::Child {
            program: "/nonexistent/compiler".into(),
            args: Vec::new(),
            budget: CompileBudget::default(),
        };
        let config = SandboxConfig { profile, concurrency: 1, compiler, ..SandboxConfig::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { sandbox: Sandbox::new(config).unwrap(), runtime }
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.sandbox.engine()
    }

    pub(crate) fn store(&self) -> Store<()> {
        let mut store = Store::new(self.engine(), ());
        store.set_fuel(FUEL).unwrap();
        store.set_epoch_deadline(1 << 40);
        store
    }

    /// Loads a component as far as that is possible without a compiler.
    pub(crate) fn load(&self, component: Vec<u8>) -> Result<(), LoadError> {
        self.runtime.block_on(self.sandbox.load(component, LoadOptions::default())).map(drop)
    }

    /// Returns the proposal for which the loader refuses a core module within a component; `None` if it does not.
    pub(crate) fn disabled_proposal(&self, module: &[u8]) -> Option<&'static str> {
        match self.load(component_of(module)) {
            Err(LoadError::Proposal { proposal, .. }) => Some(proposal),
            _ => None,
        }
    }
}

/// Returns a component that contains a core module and does not use it.
pub(crate) fn component_of(module: &[u8]) -> Vec<u8> {
    let mut component = ComponentBuilder::default();
    component.core_module_raw(None, module);
    component.finish()
}

/// Returns whether a module or component is valid if every proposal that the parser knows is on.
pub(crate) fn is_valid_with_all_proposals(bytes: &[u8]) -> bool {
    Validator::new_with_features(WasmFeatures::all()).validate_all(bytes).is_ok()
}
