//! Set-up and checks of the Whet workspace.
fn main() {}
