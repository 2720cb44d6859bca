//! Exceptions that end a program, with their position in its text.

use rquickjs::{CatchResultExt as _, CaughtError, Ctx, Function, Object};

use crate::bindings::exports::fumehood::code::interpreter::Exception;
use crate::source;

/// Maximum size of the name and of the message of an exception, in bytes each.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// The parts of an exception, as the program's own objects state them.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) message: String,
    pub(crate) backtrace: String,
    /// The kind of the failed call; empty if there is none.
    pub(crate) kind: String,
}

impl Parts {
    /// Returns the exception, with the position in `code` that its backtrace names.
    pub(crate) fn locate(self, code: &str) -> Exception {
        let position = source::find_position(&self.backtrace, code);
        let Self { name, message, kind, .. } = self;
        Exception {
            name: truncate(if name.is_empty() { "Error".to_owned() } else { name }),
            message: truncate(message),
            line: position.map(|(line, _)| line),
            column: position.map(|(_, column)| column),
            kind: Some(kind).filter(|kind| !kind.is_empty()),
        }
    }
}

/// Creates an exception of the interpreter itself.
pub(crate) fn new(name: &str, message: &str) -> Exception {
    Exception { name: name.to_owned(), message: message.to_owned(), line: None, column: None, kind: None }
}

/// Takes the pending exception of a failed operation.
pub(crate) fn catch<'js, T>(
    ctx: &Ctx<'js>,
    prelude: &Object<'js>,
    result: rquickjs::Result<T>,
    code: &str,
) -> Result<T, Exception> {
    result.catch(ctx).map_err(|error| {
        let thrown = match error {
            CaughtError::Exception(exception) => exception.into_object().into_value(),
            CaughtError::Value(value) => value,
            CaughtError::Error(error) => return new("InternalError", &error.to_string()),
        };
        let explain = prelude.get::<_, Function<'js>>("explain");
        match explain.and_then(|explain| explain.call::<_, Vec<String>>((thrown,))) {
            Ok(parts) => {
                let mut parts = parts.into_iter();
                let mut next = || parts.next().unwrap_or_default();
                Parts { name: next(), message: next(), backtrace: next(), kind: next() }.locate(code)
            }
            // Nothing can be allocated any more.
            Err(_) => new("InternalError", "out of memory"),
        }
    })
}

fn truncate(mut text: String) -> String {
    if text.len() > MAX_MESSAGE_BYTES {
        text.truncate(text.floor_char_boundary(MAX_MESSAGE_BYTES));
        text.push('…');
    }
    text
}
