//! `whet train`.

use crate::words::note;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use whet_controller::{RunEnd, Stop};
use whet_observe::{Console, ConsoleMode};
use whet_recipe::Recipe;

/// Exit code of a run that was interrupted, as shells give it to what SIGINT ends.
const INTERRUPTED: u8 = 130;

/// Train a model as a recipe says.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  whet train recipes/sums.toml\n  whet train recipes/sums.toml --set train.steps=20 --run-dir runs/short\n  whet train recipes/sums.toml --resume\n\nCtrl-C ends the run after the current step and writes a checkpoint; again, it ends at once."
)]
pub struct Train {
    /// The recipe
    recipe: PathBuf,
    /// Change a key of the recipe, as in train.steps=20; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Go on from the last checkpoint of the run directory
    #[arg(long)]
    resume: bool,
    /// Where the run lives, instead of the recipe's run.dir
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Say nothing but warnings and errors
    #[arg(long, conflicts_with = "json")]
    quiet: bool,
    /// One JSON object per line, for programs
    #[arg(long)]
    json: bool,
}

/// Trains; prints how it ended.
pub fn run(arguments: Train) -> anyhow::Result<ExitCode> {
    let run_dir = arguments.run_dir;
    let recipe = load(&arguments.recipe, &arguments.overrides, run_dir.clone())?;
    let mode = match (arguments.quiet, arguments.json) {
        (true, _) => ConsoleMode::Quiet,
        (_, true) => ConsoleMode::Json,
        _ => ConsoleMode::Human,
    };
    let stop = Stop::default();
    stop_on_signal(&stop)?;
    let mut console = Console::new(mode);
    match whet_controller::train(recipe, arguments.resume, &mut console, &stop)? {
        RunEnd::Finished { dir } => {
            console.say(&format!(
                "  finished; `whet export {0} --output MODEL` writes the model, `tensorboard --logdir {0}` shows the curves",
                dir.display()
            ));
            Ok(ExitCode::SUCCESS)
        }
        RunEnd::Interrupted { step, .. } => {
            note(format!(
                "interrupted after step {step}; go on with `{}`",
                again(&arguments.recipe, run_dir.as_deref(), &arguments.overrides)
            ));
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}

/// The command that goes on with the same run.
fn again(recipe: &Path, run_dir: Option<&Path>, overrides: &[String]) -> String {
    let mut words = vec!["whet".to_owned(), "train".into(), recipe.display().to_string(), "--resume".into()];
    if let Some(dir) = run_dir {
        words.extend(["--run-dir".into(), dir.display().to_string()]);
    }
    words.extend(overrides.iter().flat_map(|set| ["--set".to_owned(), set.clone()]));
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=.,/:@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A recipe with its overrides.
pub fn load(path: &Path, overrides: &[String], run_dir: Option<PathBuf>) -> anyhow::Result<Recipe> {
    let mut recipe = Recipe::load_with(path, overrides)?;
    if let Some(dir) = run_dir {
        recipe.run.dir = std::path::absolute(dir)?;
    }
    Ok(recipe)
}

/// The first signal asks, the second one ends the process.
pub fn stop_on_signal(stop: &Stop) -> anyhow::Result<()> {
    let stop = stop.clone();
    ctrlc::set_handler(move || {
        if stop.ask() {
            whet_native::exit::at_once(i32::from(INTERRUPTED));
        }
        note("stopping after this step; Ctrl-C again stops now");
    })?;
    Ok(())
}
