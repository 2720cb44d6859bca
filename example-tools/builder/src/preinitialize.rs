//! Pre-initialization of a module: its initialization runs here, and what it left in memory becomes part of the module.

use anyhow::{Context as _, Result};
use wasmtime::{Config, Engine, Instance, Linker, Module, Store, Val};
use wasmtime_wizer::{InstanceState, SnapshotVal, ValType, Wizer};

/// Runs the exported function `wizer-initialize` of a module, and returns the module as it is after that, without the
/// function. Calling an import is an error.
///
/// # Errors
///
/// If the module is not valid, or its initialization fails.
pub(crate) fn preinitialize(module: &[u8]) -> Result<Vec<u8>> {
    let mut wizer = Wizer::new();
    wizer.init_func("wizer-initialize");
    let (context, instrumented) = wizer.instrument(module).map_err(into_anyhow)?;
    let mut config = Config::new();
    // No collector is compiled in.
    config.gc_support(false);
    let engine = Engine::new(&config).map_err(into_anyhow)?;
    let compiled = Module::new(&engine, instrumented).map_err(into_anyhow)?;
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::new(&engine);
    linker.define_unknown_imports_as_traps(&compiled).map_err(into_anyhow)?;
    let instance = linker.instantiate(&mut store, &compiled).map_err(into_anyhow)?;
    let initialize = instance.get_typed_func::<(), ()>(&mut store, wizer.get_init_func()).map_err(into_anyhow)?;
    initialize.call(&mut store, ()).map_err(into_anyhow).context("the initialization failed")?;
    let mut state = Initialized { store, instance };
    // Nothing in it waits.
    futures_executor::block_on(wizer.snapshot(&context, &mut state)).map_err(into_anyhow)
}

fn into_anyhow(error: wasmtime::Error) -> anyhow::Error {
    anyhow::anyhow!("{error:#}")
}

/// An instance after its initialization.
struct Initialized {
    store: Store<()>,
    instance: Instance,
}

impl InstanceState for Initialized {
    /// # Panics
    ///
    /// If there is no such global: wizer exports all of them.
    #[allow(clippy::panic, reason = "the trait has no way to report an error, and asks for what it exported itself")]
    async fn global_get(&mut self, name: &str, _type: ValType) -> SnapshotVal {
        let value = self.instance.get_global(&mut self.store, name).map(|global| global.get(&mut self.store));
        match value {
            Some(Val::I32(value)) => SnapshotVal::I32(value),
            Some(Val::I64(value)) => SnapshotVal::I64(value),
            Some(Val::F32(value)) => SnapshotVal::F32(value),
            Some(Val::F64(value)) => SnapshotVal::F64(value),
            Some(Val::V128(value)) => SnapshotVal::V128(value.as_u128()),
            _ => panic!("the module has no global `{name}` of a type that can be recorded"),
        }
    }

    async fn memory_contents(&mut self, name: &str, contents: impl FnOnce(&[u8]) + Send) {
        if let Some(memory) = self.instance.get_memory(&mut self.store, name) {
            contents(memory.data(&self.store));
        }
    }
}
