//! The whet command line.
fn main() {}
