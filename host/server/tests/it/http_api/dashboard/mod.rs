//! The dashboard at its boundary: a real listener, sources that are hostile wherever they can be, and a browser.

mod browser;
mod hostile;
mod pages;
mod security;
mod visitor;
