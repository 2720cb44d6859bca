//! Jobs: calls whose callers do not wait, and come back for the result.

mod memory;
mod record;
mod store;

pub use crate::call::JobId;
pub use memory::MemoryJobs;
pub use record::{Job, JobKey, JobState};
pub use store::{JobLimits, JobStore, JobStoreError};
