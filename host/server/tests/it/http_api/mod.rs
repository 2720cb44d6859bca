//! The HTTP API, with tools of the test.

mod api_server;
mod calls;
mod dashboard;
mod document;
mod job_keys;
mod jobs;
mod limits;
mod sessions;
mod streams;
mod tenants;
