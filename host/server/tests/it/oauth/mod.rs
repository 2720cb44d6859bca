//! Access tokens, with a real issuer on loopback.

mod issuer;
mod keys;
mod token_server;
mod tokens;
