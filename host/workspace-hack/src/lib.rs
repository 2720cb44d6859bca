//! Holds no code. Its manifest gives every dependency that several crates of the workspace share one set of features.
