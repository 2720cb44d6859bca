//! The driver for models that call tools through their provider's own interface.

mod driver;
mod format;
mod inline;
mod leak;

pub use driver::NativeDriver;
pub use format::{pair, prose};
pub use inline::inline_call;
