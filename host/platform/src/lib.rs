//! Operating system functions that several crates of the Fumehood tool host need, one module for each concern.
//!
//! Part of [`fumehood`](https://docs.rs/fumehood), the crate that services depend on.
//!
//! A module has one file for each system and the same functions in all of them, so that no other code asks which system
//! it runs on. Where a system lacks something that the host cannot do without, building for it ends with a sentence that
//! names it.
//!
//! ```
//! use fumehood_platform::{limits, private};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::env::temp_dir().join(format!("fumehood-platform-{}", std::process::id()));
//! // A file that only this user can read, whatever the umask of the process is.
//! private::write_options().create_new(true).open(&file)?;
//! assert!(!private::is_open_to_others(&std::fs::metadata(&file)?));
//! # std::fs::remove_file(&file)?;
//!
//! let space = limits::disk_space(&std::env::temp_dir()).ok_or("the file system does not say")?;
//! assert!(space.free <= space.size);
//! # Ok(())
//! # }
//! ```

pub mod beneath;
pub mod files;
pub mod limits;
pub mod private;
pub mod process;
pub mod sealed;
pub mod sockets;
pub mod terminal;
