//! The native module of the npm package `fumehood`: a host, its calls and their results. The package itself, in `../package`, adds what
//! is easier to say in JavaScript: promises that a signal rejects, async iterators, and adapters.
#![cfg(feature = "addon")]

mod agent;
mod capability;
mod events;
mod fault;
mod host;
mod outcome;
mod result;
mod stop;
mod subscription;
