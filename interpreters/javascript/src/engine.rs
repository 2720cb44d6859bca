//! The engine: one context of QuickJS with the prelude, and the functions that the prelude calls.

use std::cell::{OnceCell, RefCell};

use rquickjs::context::EvalOptions;
use rquickjs::prelude::{Func, Opt};
use rquickjs::{Context, Ctx, Function, Object, Persistent, Runtime};

use crate::bindings::fumehood::code::calls;
use crate::exception::Parts;
use crate::{clock, console};

/// The source text of the prelude.
const PRELUDE: &str = include_str!("prelude.js");
/// Stack of QuickJS, in bytes: what is left of it, the C functions beneath it take. The stack of the sandbox ends
/// later, so that a deep recursion is an exception.
const MAX_STACK_BYTES: usize = 160 << 10;

/// An engine that is ready to run a program.
pub(crate) struct Engine {
    pub(crate) context: Context,
    /// The object that the prelude returns.
    pub(crate) prelude: Persistent<Object<'static>>,
}

/// The end of a program.
pub(crate) enum End {
    /// It returned a value, as JSON, or nothing.
    Returned(Option<String>),
    /// It did not catch an exception.
    Threw(Parts),
}

thread_local! {
    static ENGINE: OnceCell<Option<Engine>> = const { OnceCell::new() };
    static RANDOM: RefCell<fastrand::Rng> = RefCell::new(fastrand::Rng::with_seed(0));
    static END: RefCell<Option<End>> = const { RefCell::new(None) };
}

/// Creates the engine, unless there is one.
pub(crate) fn set_up() {
    ENGINE.with(|engine| {
        engine.get_or_init(|| create().ok());
    });
}

/// Runs `work` with the engine. Returns `None` if it could not be created.
pub(crate) fn with<R>(work: impl FnOnce(&Engine) -> R) -> Option<R> {
    set_up();
    ENGINE.with(|engine| engine.get().and_then(Option::as_ref).map(work))
}

/// Starts the random numbers of a program.
pub(crate) fn seed(seed: u64) {
    RANDOM.replace(fastrand::Rng::with_seed(seed));
}

/// Takes the end of the program, if it came.
pub(crate) fn take_end() -> Option<End> {
    END.take()
}

fn create() -> rquickjs::Result<Engine> {
    let runtime = Runtime::new()?;
    runtime.set_max_stack_size(MAX_STACK_BYTES);
    let context = Context::full(&runtime)?;
    let prelude = context.with(|ctx| {
        let mut options = EvalOptions::default();
        options.filename = Some("prelude.js".to_owned());
        let prelude: Function<'_> = ctx.eval_with_options(PRELUDE, options)?;
        let prelude: Object<'_> = prelude.call((host_functions(&ctx)?,))?;
        rquickjs::Result::Ok(Persistent::save(&ctx, prelude))
    })?;
    runtime.run_gc();
    Ok(Engine { context, prelude })
}

/// Returns the object `host` of the prelude.
fn host_functions<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let host = Object::new(ctx.clone())?;
    host.set("start", Func::from(|name: String, arguments: String| calls::start(&name, &arguments)))?;
    host.set("print", Func::from(|level: u8, message: String| console::write(level, &message)))?;
    host.set("random", Func::from(|| RANDOM.with_borrow_mut(fastrand::Rng::f64)))?;
    host.set("advance", Func::from(|milliseconds: f64| clock::advance_to(milliseconds)))?;
    host.set("finish", Func::from(|value: Opt<Option<String>>| end(End::Returned(value.0.flatten()))))?;
    host.set(
        "fail",
        Func::from(|name: String, message: String, backtrace: String, kind: String| {
            end(End::Threw(Parts { name, message, backtrace, kind }));
        }),
    )?;
    Ok(host)
}

/// Notes the end of the program. The first one counts.
fn end(end: End) {
    END.with_borrow_mut(|noted| {
        noted.get_or_insert(end);
    });
}
