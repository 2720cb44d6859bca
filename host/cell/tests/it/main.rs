//! Tests of the protocol between gateways and workers.

mod simulation;
