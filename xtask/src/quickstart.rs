//! `cargo xtask quickstart`: from a fresh clone to a model that has learned something.

use crate::workspace::{Workspace, run as run_command, say, toml_text};
use crate::{model, plugins, setup};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
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
    /// Go on with a run that was interrupted.
    #[arg(long)]
    resume: bool,
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
    let dir = match &options.dir {
        Some(dir) => std::path::absolute(dir).context("resolving --dir")?,
        None => workspace.root.join(format!("runs/quickstart-seed{}", options.seed)),
    };
    // Before minutes of building, rather than after.
    if dir.join("metrics.jsonl").exists() && !options.resume {
        bail!(
            "{} already holds a run. Look at it there, go on with --resume, remove it to start over, or choose \
             another place with --dir (or another --seed)",
            dir.display()
        );
    }
    setup::run(workspace, &setup::Options::default())?;
    workspace.build_whet()?;
    plugins::build_all(workspace)?;
    let source = match &options.model {
        Some(source) => source.clone(),
        None => model::ensure(workspace)?,
    };
    let built = start.elapsed();
    let mut train = workspace.command(workspace.whet());
    train.args(["train", "recipes/quickstart.toml", "--run-dir"]).arg(&dir);
    train.arg("--set").arg(format!("model.source={}", toml_text(&source)));
    train.arg("--set").arg(format!("seed={}", options.seed));
    for setting in &options.settings {
        train.arg("--set").arg(setting);
    }
    if options.resume {
        train.arg("--resume");
    }
    // Ctrl-C reaches `whet` too, which finishes its step and writes a checkpoint: wait for it.
    ctrlc::set_handler(|| {}).context("preparing for Ctrl-C")?;
    say(
        "train",
        "recipes/quickstart.toml (Ctrl-C stops after the step; `cargo xtask quickstart --resume` goes on)",
    );
    run_command(&mut train)?;
    let total = start.elapsed();
    let minutes = |time: std::time::Duration| time.as_secs_f64() / 60.0;
    say(
        "quickstart",
        format!(
            "{:.1} minutes: {:.1} for set-up and build, {:.1} for training and evaluation; all of it is in {}",
            minutes(total),
            minutes(built),
            minutes(total - built),
            dir.display()
        ),
    );
    let (before, after) = accuracy(&dir.join("metrics.jsonl"))?;
    say(
        "accuracy",
        format!("on the test questions: {before:.3} before, {after:.3} after (seed {})", options.seed),
    );
    Ok(())
}

/// The test split's accuracy in the first and the last evaluation of a run: the mean reward, since
/// `math-answer` gives 1 or 0.
fn accuracy(metrics: &Path) -> Result<(f64, f64)> {
    let text = std::fs::read_to_string(metrics).with_context(|| format!("reading {}", metrics.display()))?;
    let mut found = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?.get("eval/reward")?.as_f64());
    let first = found.next().with_context(|| format!("{} holds no evaluation", metrics.display()))?;
    Ok((first, found.next_back().unwrap_or(first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_is_the_first_evaluation_and_after_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let lines = [
            "{\"step\":0,\"eval/reward\":0.12}",
            "{\"step\":1,\"reward/mean\":0.2}",
            "{\"step\":20,\"eval/reward\":0.6}",
            "{\"step\":50,\"eval/reward\":0.95}",
        ];
        std::fs::write(&path, lines.join("\n")).unwrap();
        assert_eq!(accuracy(&path).unwrap(), (0.12, 0.95));
    }
}
