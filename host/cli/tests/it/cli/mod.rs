//! The command line as a user sees it: arguments, standard output and error, and the exit code.

// Clippy allows panics in helper functions only under `cfg(test)`.
#[cfg(test)]
mod add;
#[cfg(test)]
mod agent_loop;
#[cfg(test)]
mod approve;
mod approve_screen;
#[cfg(test)]
mod arguments;
#[cfg(test)]
mod author;
#[cfg(test)]
mod author_javascript;
#[cfg(test)]
mod author_languages;
#[cfg(test)]
mod bad_files;
#[cfg(test)]
mod cache;
#[cfg(test)]
mod call;
#[cfg(test)]
mod call_policy;
#[cfg(test)]
mod channel;
#[cfg(test)]
mod chat;
#[cfg(test)]
mod code_mode;
#[cfg(test)]
mod compile;
#[cfg(test)]
mod compiler;
#[cfg(test)]
mod component_resources;
#[cfg(test)]
mod config;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod dashboard;
mod deferred;
#[cfg(test)]
mod deferred_programs;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod dev;
#[cfg(test)]
mod documented;
#[cfg(test)]
mod example_projects;
#[cfg(test)]
mod first_hour;
#[cfg(test)]
mod flows;
#[cfg(test)]
mod foreign_cases;
#[cfg(test)]
mod foreign_lock;
#[cfg(test)]
mod gateway;
mod gateway_values;
mod granted;
#[cfg(test)]
mod help;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod hostile_text;
#[cfg(test)]
mod index;
#[cfg(test)]
mod inspect;
#[cfg(test)]
mod interrupt;
#[cfg(test)]
mod isolation;
#[cfg(test)]
mod jail;
#[cfg(test)]
mod jobs;
mod key;
#[cfg(test)]
mod limit_options;
#[cfg(test)]
mod live_servers;
#[cfg(test)]
mod log;
#[cfg(test)]
mod log_kept;
#[cfg(test)]
mod log_trouble;
#[cfg(test)]
mod log_witness;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod openapi_client;
#[cfg(test)]
mod other_collector;
#[cfg(test)]
mod packages;
#[cfg(test)]
mod persist;
mod pictures;
mod planted;
#[cfg(test)]
mod powers;
#[cfg(test)]
mod programs;
mod providers;
#[cfg(test)]
mod publish;
#[cfg(test)]
mod published;
mod quick_start;
mod readme;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod revoke;
#[cfg(test)]
mod road;
#[cfg(test)]
mod run;
#[cfg(test)]
mod run_output;
mod run_powers;
#[cfg(test)]
mod run_settings;
#[cfg(test)]
mod saved_sessions;
#[cfg(test)]
mod scratch;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod selftest;
mod serve_http;
#[cfg(test)]
mod serve_load;
#[cfg(test)]
mod serve_oauth;
#[cfg(test)]
mod serve_sessions;
#[cfg(test)]
mod serve_tenants;
#[cfg(test)]
mod served_library;
mod server;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod service;
#[cfg(test)]
mod service_log;
#[cfg(test)]
mod session;
mod shell;
#[cfg(test)]
mod skills;
#[cfg(test)]
mod slips;
mod store;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod tables;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod telemetry;
mod terminal;
#[cfg(test)]
mod traces;
#[cfg(test)]
mod trust;
#[cfg(test)]
mod update;
#[cfg(test)]
mod watch;
#[cfg(test)]
mod wishes;
mod wkg;
#[cfg(test)]
mod workbench;
#[cfg(test)]
mod worker_deaths;
#[cfg(test)]
mod worker_traffic;
