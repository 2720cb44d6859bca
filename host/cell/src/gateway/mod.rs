//! A gateway: tools whose calls run at the workers of a cell.

mod attempt;
mod cell_tools;
mod outcome;

pub use cell_tools::{CellTools, GatewayOptions, LateResult};
