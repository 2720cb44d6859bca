//! The compilation of a program: as it is, or without its types where it is TypeScript.

use rquickjs::context::EvalOptions;
use rquickjs::{Ctx, Error, Function, Object, Value};

use crate::bindings::exports::fumehood::code::interpreter::Exception;
use crate::exception::{self, catch};
use crate::types::{Erased, erase};
use crate::{source, types};

/// Compiles a program to a function.
///
/// Valid JavaScript is never searched for types, except for calls such as `f<T>(x)`: in JavaScript they are two comparisons,
/// which nobody means.
pub(crate) fn compile<'js>(ctx: &Ctx<'js>, prelude: &Object<'js>, code: &str) -> Result<Function<'js>, Exception> {
    let program = source::unfence(code);
    if types::may_have_typed_call(&program)
        && let Erased::Typed(program) = erase(&program)
    {
        return catch(ctx, prelude, evaluate(ctx, &program), code);
    }
    let evaluated = evaluate(ctx, &program);
    if !matches!(evaluated, Err(Error::Exception)) {
        return catch(ctx, prelude, evaluated, code);
    }
    let thrown = ctx.catch();
    let erased = if is_syntax_error(&thrown) { erase(&program) } else { Erased::Plain };
    match erased {
        Erased::Plain => catch(ctx, prelude, Err(ctx.throw(thrown)), code),
        Erased::Typed(program) => catch(ctx, prelude, evaluate(ctx, &program), code),
        Erased::Invalid { message, at } => {
            let (line, column) = source::position_of(&program, at);
            let error = exception::new("SyntaxError", &message);
            Err(Exception { line: Some(line), column: Some(column), ..error })
        }
    }
}

fn evaluate<'js>(ctx: &Ctx<'js>, program: &str) -> rquickjs::Result<Function<'js>> {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(source::FILE_NAME.to_owned());
    ctx.eval_with_options(source::wrap(program), options)
}

/// Returns whether the text could not be compiled. No code of the program has run then.
fn is_syntax_error(thrown: &Value<'_>) -> bool {
    let name = thrown.as_object().and_then(|error| error.get::<_, String>("name").ok());
    name.as_deref() == Some("SyntaxError")
}
