//! Stores of tools between their calls: granted or not at all, apart from what others keep, within its quota, and never a
//! reason for the host to fail.

mod broken;
mod keeping;
mod listing;
mod quotas;
mod stage;
