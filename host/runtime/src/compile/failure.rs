//! Classification of the engine's errors: a malformed component, or not enough memory.

use std::io;

/// Returns the engine's reason for refusing a component, in one line, with a hint if the file seems to be truncated.
pub(super) fn malformed(error: &wasmtime::Error) -> String {
    in_words(&error.chain().last().map_or_else(String::new, ToString::to_string))
}

/// Like [`malformed`], for a message of the parser.
pub(super) fn in_words(cause: &str) -> String {
    let cut_or_appended = ["unexpected end", "unexpected-end", "out of bounds"].iter().any(|sign| cause.contains(sign));
    let hint = if cut_or_appended { " (is the file complete, and nothing appended to it?)" } else { "" };
    format!("{}{hint}", crate::outcome::cut(cause))
}

/// Returns whether the system or an allocator refused memory.
pub(super) fn is_out_of_memory(error: &wasmtime::Error) -> bool {
    error.is::<wasmtime::error::OutOfMemory>()
        || error.chain().any(|cause| {
            cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::OutOfMemory)
                || cause.downcast_ref::<rustix::io::Errno>() == Some(&rustix::io::Errno::NOMEM)
        })
}
