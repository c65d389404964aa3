//! `cargo xtask quickstart`: from a fresh clone to a model that has learned something.

use crate::workspace::{Workspace, run as run_command, say, toml_text};
use crate::{model, plugins, setup};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::time::Instant;

/// Flags of `quickstart`.
#[derive(clap::Args)]
pub struct Options {
    /// Seed of the run: data order and sampling follow from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the run is written; `runs/quickstart-seed<SEED>` unless given.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// A model of your own: a folder, a GGUF file, or hf://organisation/name.
    #[arg(long)]
    model: Option<String>,
    /// Further settings for `whet train`, as in `--set train.steps=20`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

/// Sets up, builds, trains, and leaves the comparison of before and after on the terminal.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let start = Instant::now();
    setup::run(workspace, &setup::Options::default())?;
    workspace.build_whet()?;
    plugins::build_all(workspace)?;
    let source = match &options.model {
        Some(source) => source.clone(),
        None => model::ensure(workspace)?,
    };
    let dir = match &options.dir {
        Some(dir) => std::path::absolute(dir).context("resolving --dir")?,
        None => workspace.root.join(format!("runs/quickstart-seed{}", options.seed)),
    };
    if dir.join("metrics.jsonl").exists() {
        bail!(
            "{} already holds a run. Look at it there, remove it to start over, or choose another place with --dir \
             (or another --seed)",
            dir.display()
        );
    }
    let built = start.elapsed();
    let mut train = workspace.command(workspace.whet());
    train.args(["train", "recipes/quickstart.toml"]);
    for (key, value) in [("model.source", toml_text(&source)), ("run.dir", toml_text(&dir.to_string_lossy()))]
    {
        train.arg("--set").arg(format!("{key}={value}"));
    }
    train.arg("--set").arg(format!("seed={}", options.seed));
    for setting in &options.settings {
        train.arg("--set").arg(setting);
    }
    // Ctrl-C reaches `whet` too, which finishes its step and writes a checkpoint: wait for it.
    ctrlc::set_handler(|| {}).context("preparing for Ctrl-C")?;
    say("train", "recipes/quickstart.toml (Ctrl-C stops after the step; `whet train … --resume` goes on)");
    run_command(&mut train)?;
    let total = start.elapsed();
    say(
        "quickstart",
        format!(
            "done in {:.1} minutes: {:.1} for set-up and build, {:.1} for training and evaluation; all of it is in {}",
            total.as_secs_f64() / 60.0,
            built.as_secs_f64() / 60.0,
            (total - built).as_secs_f64() / 60.0,
            dir.display()
        ),
    );
    Ok(())
}
