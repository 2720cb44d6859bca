//! The operating system's own functions that several crates of the host need, one module for each concern.
//!
//! A module has one file for each system and the same functions in all of them, so that no other code asks which system
//! it runs on. Where a system lacks something that the host cannot do without, building for it ends with a sentence that
//! names it.

pub mod beneath;
pub mod files;
pub mod limits;
pub mod private;
pub mod process;
pub mod sealed;
pub mod sockets;
pub mod terminal;
