//! A gateway: tools whose calls run at the workers of a cell.

mod attempt;
mod cell_tools;
mod draining;
mod inbox;
mod outcome;
mod queued_call;
mod sessions;

pub use cell_tools::{CellTools, GatewayOptions, LateResult};
pub use draining::DrainState;
pub(crate) use outcome::{failed_result, result_of};
pub(crate) use queued_call::{CallQueue, QueuedCall};
