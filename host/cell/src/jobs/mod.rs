//! Jobs of a cell: calls that wait in a work queue of JetStream, and outlive their client, their gateway and NATS.
//!
//! | entry | written by | when |
//! |---|---|---|
//! | record | a gateway | the job is created, and has ended |
//! | request | a gateway | the job is submitted; its id goes into the queue |
//! | claim | a worker, or a gateway that withdraws the job | before the guest begins, and again while it runs |
//! | end | a worker | the call has ended, or its worker was lost |
//!
//! Claims and ends are created and never replaced by another node's, so that a job begins once and ends once.

mod cell_jobs;
mod claimed_job;
mod job_queue;
mod job_runner;
mod job_stream;
mod message;

pub use cell_jobs::CellJobs;
pub use job_runner::JobRunner;
pub use job_stream::JobQueueOptions;
