//! Whet's end-to-end tests in one binary: one module per area, so that one link step serves all.
#![allow(clippy::unwrap_used)]

mod observe;
mod gpu;
mod golden;
mod gradients;
mod data;
mod recipes;
mod rollout;
mod models;
mod whet;
mod train;
mod resume;
mod bad_input;
mod plugin_cli;

/// The program, which `cargo build --release -p whet-cli` puts beside the folder of the tests.
fn whet() -> std::path::PathBuf {
    let tests = std::env::current_exe().expect("the test program has a path");
    let folder = tests.ancestors().nth(2).expect("test programs lie in target/release/deps");
    folder.join(format!("whet{}", std::env::consts::EXE_SUFFIX))
}
