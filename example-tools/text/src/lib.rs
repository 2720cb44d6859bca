//! Tools for text: statistics, search and replacement with regular expressions, and diffs.

pub mod comparison;
pub mod counting;
mod pattern;
pub mod replacing;
pub mod searching;

fumehood_guest::export!(counting::statistics, searching::regex_search, replacing::regex_replace, comparison::diff,);
