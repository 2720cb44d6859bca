//! Drivers: the protocols between the loop and a model, behind one port.
//!
//! [`native`] is for models that call tools through their provider's own interface, [`react`] for any model that can
//! write JSON, and [`batch`] for models that call many tools at once in text.

pub mod batch;
pub mod driver;
mod examples;
pub mod native;
pub mod react;
pub(crate) mod recover;
pub mod render;
pub mod reply_part;
