//! Write Whet plugins in Rust: one trait and one macro per world.
