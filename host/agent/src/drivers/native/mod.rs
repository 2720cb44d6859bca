//! The driver for models that call tools through their provider's own interface.

mod driver;
mod format;
mod inline;

pub use driver::NativeDriver;
