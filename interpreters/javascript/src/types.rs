//! TypeScript in programs: its types are erased, and what remains is the program in JavaScript.
//!
//! Blanks take the place of types, so that lines and columns in errors are those of the text that the model wrote.

use oxc_allocator::Allocator;
use oxc_ast_visit::Visit as _;
use oxc_parser::{ParseOptions, Parser};
use oxc_span::SourceType;

use crate::eraser::{Eraser, Uncompiled};
use crate::erasure::Erasure;

/// The outcome of erasing the types of a program.
pub(crate) enum Erased {
    /// It has no types.
    Plain,
    /// The program without them.
    Typed(String),
    /// It has types, and is not valid.
    Invalid {
        message: String,
        /// Position of the error in the text, in bytes.
        at: usize,
    },
}

/// Erases the types of a program.
pub(crate) fn erase(code: &str) -> Erased {
    let allocator = Allocator::default();
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let parse = |of: SourceType| Parser::new(&allocator, code, of).with_options(options).parse();
    let parsed = parse(SourceType::ts());
    if let Some((message, at)) = first_error(&parsed.diagnostics) {
        // The parser of JavaScript stops at a type, if one comes before the error.
        let has_types = first_error(&parse(SourceType::mjs()).diagnostics).is_some_and(|(_, first)| first < at);
        return if has_types { Erased::Invalid { message, at } } else { Erased::Plain };
    }
    let mut eraser = Eraser::new(Erasure::new(code));
    eraser.visit_program(&parsed.program);
    match eraser.finish() {
        Ok(Some(text)) => Erased::Typed(text),
        Ok(None) => Erased::Plain,
        Err(Uncompiled { what, instead, at }) => {
            let message = format!("{what} cannot be used here: types are removed, and nothing is compiled; {instead}");
            Erased::Invalid { message, at: at as usize }
        }
    }
}

/// Returns whether a program may have a call with type arguments, `f<T>(x)`, which is valid JavaScript as well.
pub(crate) fn may_have_typed_call(code: &str) -> bool {
    code.match_indices(">(").any(|(at, _)| !code.get(..at).is_some_and(|before| before.ends_with(['=', '>', '-'])))
        && code.contains('<')
}

/// Returns the message and the position of the first error.
fn first_error(diagnostics: &[oxc_diagnostics::OxcDiagnostic]) -> Option<(String, usize)> {
    let error = diagnostics.first()?;
    let at = error.labels.first().map_or(0, |label| label.offset());
    Some((error.message.to_string(), at as usize))
}
