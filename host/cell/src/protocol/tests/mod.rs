//! Tests of the state machines together, in virtual time, and of what their messages cost.

mod costs;
mod scale;
mod simulation;
