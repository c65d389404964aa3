//! `cargo xtask setup`: everything a build needs and nothing else.

use crate::libtorch::{self, Build};
use crate::wasm_target;
use crate::workspace::{Workspace, say};
use anyhow::Result;

/// Flags of `setup`.
#[derive(clap::Args, Default)]
pub struct Options {
    /// Use the libtorch with CUDA (the default where an NVIDIA driver is loaded).
    #[arg(long, conflicts_with = "cpu")]
    pub cuda: bool,
    /// Use the libtorch without CUDA.
    #[arg(long)]
    pub cpu: bool,
}

/// Sets up and says what it did.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let wanted = match (options.cuda, options.cpu) {
        (true, _) => Some(Build::Cuda),
        (_, true) => Some(Build::Cpu),
        _ => None,
    };
    let libtorch = libtorch::ensure(workspace, wanted)?;
    let target = wasm_target::ensure(workspace)?;
    let state = if libtorch || target { "done" } else { "nothing to do" };
    say("setup", format!("{state}: {}, target {}", libtorch::describe(workspace), wasm_target::TARGET));
    let linked = std::fs::canonicalize(workspace.libtorch_link()).unwrap_or_default();
    if libtorch::driver_is_loaded() && wanted.is_none() && !linked.join("lib/libtorch_cuda.so").exists() {
        say(
            "note",
            "this machine has an NVIDIA driver: `cargo xtask setup --cuda` fetches what a GPU needs (2 GB)",
        );
    }
    Ok(())
}
