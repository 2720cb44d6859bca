//! Access to files: a tool sees only the folders that it was granted, and adds no more to them than its quota.

mod granted;
mod links;
mod paths;
mod place;
mod protected;
mod quotas;
mod race;
mod reading;
mod refused;
mod special;
