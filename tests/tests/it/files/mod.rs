//! A tool sees the folders that it was granted and nothing beside them, and adds no more to them than it may.

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
