//! `whet eval`.

use crate::train::{load, stop_on_signal};
use crate::words::{out, plain};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use whet_controller::evaluate::Evaluation;
use whet_controller::saved::{is_run, load_saved};
use whet_controller::{Stop, options, setup};
use whet_observe::{Console, ConsoleMode};
use whet_recipe::Eval as EvalSection;

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
    if recipe.data.test.is_empty() {
        return Err(plain(
            "the recipe has no test data to measure on",
            "add `test = \"test.jsonl\"` to its [data], or --set data.test=FILE",
        ));
    }
    let eval = recipe.eval.get_or_insert_with(EvalSection::default);
    eval.prompts = arguments.prompts.map(|n| n as usize).or(eval.prompts);

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
    if arguments.json {
        out(json!({"step": step, "metrics": evaluated.metrics}))?;
    } else {
        console.evaluation(step, &evaluated.metrics);
    }
    Ok(ExitCode::SUCCESS)
}
