//! The driver for models that call tools through their provider's own interface.

mod driver;
mod format;
mod inline;

pub use driver::NativeDriver;
pub use format::{to_prose_messages, to_tool_messages};
pub use inline::find_inline_call;
