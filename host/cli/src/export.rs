//! `whet export`.

use crate::words::{out, plain};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use whet_controller::saved::{is_run, load_saved};

/// Write a trained model in Hugging Face layout.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  whet export runs/sums --output models/sums\n  whet export runs/sums/checkpoints/step-000020 --output models/sums-20\n  whet export runs/lora --output adapters/lora --adapter      the LoRA adapter alone, in PEFT layout"
)]
pub struct Export {
    /// A run directory, whose last whole checkpoint is taken, or a checkpoint
    run: PathBuf,
    /// The folder to write
    #[arg(long, short)]
    output: PathBuf,
    /// Write the LoRA adapter instead of the merged model
    #[arg(long)]
    adapter: bool,
}

/// Exports.
pub fn run(arguments: Export) -> anyhow::Result<ExitCode> {
    if !is_run(&arguments.run) {
        return Err(plain(
            format!("`{}` is neither a run directory nor a checkpoint", arguments.run.display()),
            "name the folder that `whet train` wrote, the one with recipe.resolved.toml",
        ));
    }
    if arguments.output.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(plain(
            format!("`{}` is not empty", arguments.output.display()),
            "choose a new folder, or remove what is there",
        ));
    }
    let saved = load_saved(&arguments.run)?;
    if arguments.adapter {
        saved.export_adapter(&arguments.output)?;
    } else {
        saved.export(&arguments.output)?;
    }
    let (run, output) = (arguments.run.display(), arguments.output.display());
    out(format!("step {} of {run} written to {output}", saved.step))?;
    Ok(ExitCode::SUCCESS)
}
