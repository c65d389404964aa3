//! Set-up, checks, quickstart and benchmarks of the Whet workspace: `cargo xtask --help`.
//!
//! Runs before anything else is built, so it links neither libtorch nor wasmtime and starts the
//! other programs (cargo, pip, `whet`) as a person would.

mod answers;
mod bench;
mod checks;
mod dataset;
mod docs;
mod libtorch;
mod model;
mod peers;
mod plugins;
mod quickstart;
mod reference;
mod setup;
mod wasm_target;
mod wheel;
mod workspace;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;
use workspace::Workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Set-up, checks, quickstart and benchmarks of the Whet workspace.")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Get what a build needs: libtorch and the WebAssembly target. A second run changes nothing.
    Setup(setup::Options),
    /// Train SmolLM2-135M-Instruct under a sandboxed reward, and show its answers before and after.
    Quickstart(quickstart::Options),
    /// Everything that must pass before a change is merged.
    Test(checks::Options),
    /// Build the standard plugins into plugins/dist.
    Plugins,
    /// Measure this machine; with --peers also other frameworks on the same work.
    Bench(bench::Options),
    /// Generate the recipe reference and check the book's links.
    Docs(docs::Options),
    /// Write the quickstart's data again (it is committed; the seed is fixed).
    Data,
}

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            for cause in error.chain().skip(1) {
                eprintln!("  because: {cause}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let workspace = Workspace::find()?;
    match task {
        Task::Setup(options) => setup::run(&workspace, &options),
        Task::Quickstart(options) => quickstart::run(&workspace, &options),
        Task::Test(options) => checks::run(&workspace, &options),
        Task::Plugins => plugins::run(&workspace),
        Task::Bench(options) => bench::run(&workspace, &options),
        Task::Docs(options) => docs::run(&workspace, &options),
        Task::Data => dataset::write(&workspace),
    }
}
