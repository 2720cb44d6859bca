//! Loading an interpreter: from its bytes to linked code.

use std::sync::Arc;
use std::time::Instant;

use fumehood_core::digest::Digest;
use wasmtime::component::{Component, HasSelf, Linker};

use super::bindings::{Code, CodePre};
use super::state::ProgramState;
use super::{Interpreter, InterpreterParts};
use crate::call::shared::Shared;
use crate::load::cache::CacheReport;
use crate::load::compile::{self, CompileJob, Start};
use crate::load::error::{LoadError, MAX_COMPONENT_BYTES};
use crate::load::{Isolation, LoadReport};

/// Loads an interpreter. See [`crate::Sandbox::load_interpreter`].
pub(crate) async fn load(shared: &Arc<Shared>, bytes: Vec<u8>) -> Result<Interpreter, LoadError> {
    let started = Instant::now();
    if bytes.len() > MAX_COMPONENT_BYTES {
        return Err(LoadError::TooLarge(bytes.len() as u64));
    }
    let bytes = Arc::new(bytes);
    let looking = on_thread(shared, &bytes, |shared, bytes| {
        compile::recognise(bytes)?;
        let digest = Digest::of(bytes);
        let cache = shared.cache.as_ref();
        let limits = &shared.compile_limits;
        let start = compile::start(&shared.engine, cache, &digest, bytes, limits, false, Isolation::InProcess)?;
        Ok((digest, start))
    });
    let (digest, start) = looking.await?;
    let code = match &start {
        Start::Compile { .. } => {
            let job = CompileJob { engine: &shared.engine, bytes: Arc::clone(&bytes), factor: 1 };
            shared.compile_service.compile(&shared.runtime, job).await?
        }
        Start::Cached(_) | Start::CachedCode(_) => None,
    };
    let linking = on_thread(shared, &bytes, move |shared, bytes| {
        let engine = &shared.engine;
        let cache = shared.cache.as_ref();
        let (component, report) = match (start, code) {
            (Start::Cached(component), _) => (component, CacheReport::Hit),
            (Start::Compile { damage }, Some(code)) => compile::load_from_child(engine, cache, &digest, &code, damage)?,
            (Start::Compile { damage }, None) => compile::compile_in_process(engine, cache, &digest, bytes, damage)?,
            (Start::CachedCode(_), _) => {
                return Err(LoadError::Host("the code of the interpreter was prepared for a worker".to_owned()));
            }
        };
        Ok((link(&component)?, report))
    });
    let (pre, cache) = linking.await?;
    let report = LoadReport { cache, time: started.elapsed() };
    Ok(Interpreter(Arc::new(InterpreterParts { shared: Arc::clone(shared), pre, digest, report })))
}

/// Links an interpreter to the world, and to nothing else.
fn link(component: &Component) -> Result<CodePre<ProgramState>, LoadError> {
    let failed = |error: wasmtime::Error| LoadError::Link(crate::wasi::guest_output::cut(&format!("{error:#}")));
    let mut linker = Linker::new(component.engine());
    Code::add_to_linker::<_, HasSelf<_>>(&mut linker, |state: &mut ProgramState| state).map_err(failed)?;
    CodePre::new(linker.instantiate_pre(component).map_err(failed)?).map_err(failed)
}

/// Runs work on the bytes on a thread for blocking work.
async fn on_thread<R: Send + 'static>(
    shared: &Arc<Shared>,
    bytes: &Arc<Vec<u8>>,
    work: impl FnOnce(&Shared, &[u8]) -> Result<R, LoadError> + Send + 'static,
) -> Result<R, LoadError> {
    let there = Arc::clone(shared);
    let bytes = Arc::clone(bytes);
    shared.runtime.block(move || work(&there, &bytes)).await?
}
