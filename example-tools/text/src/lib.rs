//! Working with text: counting, searching and replacing with regular expressions, and comparing.

pub mod comparison;
pub mod counting;
mod pattern;
pub mod replacing;
pub mod searching;

fumehood_guest::export!(counting::statistics, searching::regex_search, replacing::regex_replace, comparison::diff,);
