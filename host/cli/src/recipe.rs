//! `whet recipe new|schema|algorithms|explain`.

use crate::train::load;
use crate::words::{out, plain};
use anyhow::Context;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use whet_recipe::{Recipe, Starter, Task, algorithms, reward_words, starter, task_words};

/// Write, describe and explain recipes.
#[derive(Debug, Args)]
pub struct RecipeArguments {
    #[command(subcommand)]
    command: RecipeCommand,
}

#[derive(Debug, Subcommand)]
enum RecipeCommand {
    /// Write a recipe to begin with
    #[command(
        after_help = "Example:\n  whet recipe new sums.toml --train data/sums.jsonl --reward math-answer"
    )]
    New(New),
    /// Print the JSON Schema of recipes, for editors
    #[command(after_help = "Example:\n  whet recipe schema > recipe.schema.json")]
    Schema,
    /// Print every algorithm, its formula, options and source, as Markdown
    #[command(after_help = "Example:\n  whet recipe algorithms > algorithms.md")]
    Algorithms,
    /// Say in formulas what a recipe does
    #[command(after_help = "Example:\n  whet recipe explain recipes/sums.toml")]
    Explain {
        /// The recipe
        recipe: PathBuf,
        /// Change a key of the recipe; may be repeated
        #[arg(long = "set", value_name = "KEY=VALUE")]
        overrides: Vec<String>,
    },
}

#[derive(Debug, Args)]
struct New {
    /// The file to write
    path: PathBuf,
    /// A folder, a .gguf file or hf://organisation/name
    #[arg(long)]
    model: Option<String>,
    /// Training data
    #[arg(long)]
    train: Option<String>,
    /// Test data
    #[arg(long)]
    test: Option<String>,
    /// A standard plugin's name, or a path
    #[arg(long)]
    reward: Option<String>,
}

/// Runs one of them.
pub fn run(arguments: RecipeArguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        RecipeCommand::New(new) => write_starter(new)?,
        RecipeCommand::Schema => out(format!("{:#}", whet_recipe::schema()))?,
        RecipeCommand::Algorithms => out(algorithms::markdown().trim_end())?,
        RecipeCommand::Explain { recipe, overrides } => {
            out(explain(&load(&recipe, &overrides, None)?).trim_end())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_starter(new: New) -> anyhow::Result<()> {
    if new.path.exists() {
        return Err(plain(format!("`{}` exists", new.path.display()), "choose another name"));
    }
    let usual = Starter::default();
    let text = starter(&Starter {
        task: usual.task,
        model: new.model.unwrap_or(usual.model),
        // Test data of the starter belongs to its training data.
        test: new.test.or(if new.train.is_some() { None } else { usual.test }),
        train: new.train.unwrap_or(usual.train),
        reward: new.reward.unwrap_or(usual.reward),
    });
    let path = new.path.display();
    std::fs::write(&new.path, text).with_context(|| format!("cannot write `{path}`"))?;
    out(format!("wrote {path}; `whet doctor {path}` checks it"))
}

/// The recipe's algorithm in formulas.
fn explain(recipe: &Recipe) -> String {
    let (rollout, algorithm, train) = (&recipe.rollout, &recipe.algorithm, &recipe.train);
    let line = |name: &str, text: &str| format!("{name:<11}{}\n", text.replace('\n', "\n           "));
    let more: String = task_words::explain(recipe).iter().map(|(name, text)| line(name, text)).collect();
    if recipe.task != Task::Rl {
        return format!(
            "task       {}\nstep       {} rows\n{more}updates    1 per step; AdamW, learning rate {:e}, gradient clipped at {}\nrun        {} steps\n",
            recipe.task.as_str(),
            train.batch_size,
            train.learning_rate,
            train.grad_clip,
            train.steps
        );
    }
    let mut formula: String =
        algorithms::explain(recipe).iter().map(|(name, text)| line(name, text)).collect();
    if recipe.teacher_alone() {
        formula.clear();
    }
    formula.push_str(&more);
    let rewards: String = reward_words::explain(recipe).iter().map(|(name, text)| line(name, text)).collect();
    format!(
        "step       {} prompts × {} responses of at most {} tokens, at temperature {}\n\
         {rewards}{formula}\
         updates    {} per step; AdamW, learning rate {:e}, gradient clipped at {}\n\
         run        {} steps = {} responses\n",
        rollout.prompts_per_step,
        rollout.samples_per_prompt,
        rollout.max_tokens,
        rollout.temperature,
        algorithm.epochs * algorithm.minibatches,
        train.learning_rate,
        train.grad_clip,
        train.steps,
        train.steps * (rollout.prompts_per_step * rollout.samples_per_prompt) as u64,
    )
}
