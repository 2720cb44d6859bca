//! Does nothing: it is here because only the features of a package with a build script count for build scripts and macros.

fn main() {}
