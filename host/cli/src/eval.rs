//! `whet eval`.

use crate::train::{load, stop_on_signal};
use crate::words::{out, plain};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use whet_controller::evaluate::Evaluation;
use whet_controller::saved::{find_saved, is_run, load_saved};
use whet_controller::{Stop, offline, options, setup};
use whet_observe::{Console, ConsoleMode, Metrics};
use whet_recipe::{Eval as EvalSection, Recipe, Task};

/// Measure a model on a recipe's test data.
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  whet eval recipes/sums.toml                       the recipe's model, untrained\n  whet eval runs/sums                               the last checkpoint of a run\n  whet eval recipes/sums.toml --model models/mine   another model\n  whet eval runs/sums --prompts 50 --json"
)]
pub struct Eval {
    /// A recipe, or a run directory
    source: PathBuf,
    /// Measure this model instead of the recipe's: a folder, a .gguf file or hf://organisation/name
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Use the first so many rows of the test data
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    prompts: Option<u32>,
    /// Change a key of the recipe, as in eval.temperature=1.0; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Measures; prints reward and accuracy.
pub fn run(arguments: Eval) -> anyhow::Result<ExitCode> {
    let (mut recipe, trained, step) = if is_run(&arguments.source) {
        if !arguments.overrides.is_empty() || arguments.model.is_some() {
            return Err(plain(
                "a run directory is measured as it is",
                "name the recipe to change keys or the model",
            ));
        }
        let (mut recipe, saved) = find_saved(&arguments.source)?;
        if recipe.task != Task::Rl {
            set_prompts(&mut recipe, arguments.prompts)?;
            return show(&arguments, saved.step, &offline::measure(&recipe, Some(&saved.path))?);
        }
        let saved = load_saved(&arguments.source)?;
        (saved.recipe, Some(saved.model), saved.step)
    } else if arguments.source.is_dir() {
        return Err(plain(
            format!("`{}` is neither a recipe nor a run directory", arguments.source.display()),
            "name a recipe, or the folder that `whet train` wrote, the one with recipe.resolved.toml",
        ));
    } else {
        let mut overrides = arguments.overrides.clone();
        overrides.extend(arguments.model.iter().map(|m| format!("model.source={}", json!(m))));
        (load(&arguments.source, &overrides, None)?, None, 0)
    };
    set_prompts(&mut recipe, arguments.prompts)?;
    if recipe.task != Task::Rl {
        return show(&arguments, step, &offline::measure(&recipe, None)?);
    }

    let (_host, plugins) = setup::start_plugins(&recipe, None)?;
    let rows = setup::read_rows(&recipe)?;
    let model = match trained {
        Some(model) => model,
        None => setup::load_model(&recipe)?,
    };
    let evaluation = Evaluation {
        prompts: setup::test_prompts(&recipe, rows.test, &model.checkpoint)?,
        samples: recipe.eval.as_ref().map_or(1, |e| e.samples_per_prompt),
        sampling: options::evaluation_sampling(&recipe),
        seed: recipe.seed,
    };
    let engine = setup::start_engine(&recipe, &model)?;
    let stop = Stop::default();
    stop_on_signal(&stop)?;
    let mut console = Console::new(if arguments.json { ConsoleMode::Json } else { ConsoleMode::Human });
    let Some(evaluated) = evaluation.run(step, &engine, &plugins.scorer, &mut console, &stop)? else {
        return Ok(ExitCode::from(130));
    };
    show(&arguments, step, &evaluated.metrics)
}

/// Measures as many rows as the command line says; refuses a recipe without any.
fn set_prompts(recipe: &mut Recipe, prompts: Option<u32>) -> anyhow::Result<()> {
    if recipe.data.test.is_empty() {
        return Err(plain(
            "the recipe has no test data to measure on",
            "add `test = \"test.jsonl\"` to its [data], or --set data.test=FILE",
        ));
    }
    let eval = recipe.eval.get_or_insert_with(EvalSection::default);
    eval.prompts = prompts.map(|n| n as usize).or(eval.prompts);
    Ok(())
}

fn show(arguments: &Eval, step: u64, metrics: &Metrics) -> anyhow::Result<ExitCode> {
    if arguments.json {
        out(json!({"step": step, "metrics": metrics}))?;
    } else {
        Console::new(ConsoleMode::Human).evaluation(step, metrics);
    }
    Ok(ExitCode::SUCCESS)
}
