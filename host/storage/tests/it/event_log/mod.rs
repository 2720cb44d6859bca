//! Tests of the event log.

mod checkpoint;
mod journal;
mod kill;
mod read;
mod sample;
mod storage_error;
mod suite;
mod verify;
