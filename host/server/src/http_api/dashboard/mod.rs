//! The dashboard: pages for the operator of a server, rendered here and readable without scripts.
//!
//! [`Dashboard`] is a service of the listener, beside [`Api`](crate::http_api::Api). It has a login of its own, and shows the running
//! calls of the [`TenantTools`](crate::TenantTools) that the other protocols serve. What this crate does not
//! know, such as approvals, comes through the ports of [`ports`].

mod call_form;
mod charts;
mod containment;
mod login;
mod options;
mod pages;
pub mod ports;
mod routes;
mod service;
mod statistics;
mod waterfall;

pub use options::DashboardOptions;
pub use service::Dashboard;
