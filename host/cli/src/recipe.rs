//! `whet recipe new|schema|algorithms|explain`.

use crate::plugin::{PluginFile, plugin_host};
use crate::train::load;
use crate::words::{note, out, plain};
use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::Value;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use whet_plugin_host::Kind;
use whet_recipe::{Recipe, Starter, Task, algorithms, reward_words, starter, task_words, to_fill_in};

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
    /// A folder, a .gguf file or hf://organisation/name; paths are written as they lead from the new recipe
    #[arg(long)]
    model: Option<String>,
    /// Training data
    #[arg(long)]
    train: Option<String>,
    /// Test data
    #[arg(long)]
    test: Option<String>,
    /// A standard plugin's name, or a path; the recipe has the keys that it needs, or says what to fill in
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
    let folder = new.path.parent().unwrap_or(Path::new(""));
    let reward = new.reward.unwrap_or(usual.reward);
    let asked = Asked::of(&reward)?;
    let starting = Starter {
        task: usual.task,
        // A model's name on the hub without `hf://` is left for `whet doctor` to explain.
        model: new.model.map_or(usual.model, |model| match Path::new(&model).exists() {
            true => from_folder(folder, &model),
            false => model,
        }),
        // Test data of the starter belongs to its training data.
        test: match new.test {
            Some(test) => Some(from_folder(folder, &test)),
            None if new.train.is_some() => None,
            None => usual.test,
        },
        train: new.train.map_or(usual.train, |train| from_folder(folder, &train)),
        reward: if reward.contains(['/', '\\']) || reward.ends_with(".wasm") {
            from_folder(folder, &reward)
        } else {
            reward
        },
        required: asked.required,
        asks: asked.grants,
    };
    let path = new.path.display();
    std::fs::write(&new.path, starter(&starting)).with_context(|| format!("cannot write `{path}`"))?;
    if let Some(trouble) = asked.trouble {
        note(format!("note: `{}` could not be looked at: {trouble}", starting.reward));
    }
    let open = to_fill_in(&starting);
    if open.is_empty() {
        return out(format!("wrote {path}; `whet doctor {path}` checks it"));
    }
    let width = open.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let lines: Vec<String> = open.iter().map(|(key, what)| format!("  {key:<width$}  {what}")).collect();
    out(format!(
        "wrote {path}; to fill in before it can run (search for FILL IN):\n{}\nthen `whet doctor {path}` checks it",
        lines.join("\n")
    ))
}

/// What a reward plugin asks of a recipe, as far as its file tells.
struct Asked {
    required: Vec<(String, String)>,
    grants: Vec<String>,
    /// Why the file tells nothing.
    trouble: Option<String>,
}

impl Asked {
    fn of(reward: &str) -> anyhow::Result<Asked> {
        let looked = PluginFile::read(reward)
            .and_then(|file| plugin_host().inspect(&file.bytes).map_err(|e| file.refused(e)));
        let inspection = match looked {
            Ok(inspection) => inspection,
            Err(error) => {
                return Ok(Asked {
                    required: Vec::new(),
                    grants: Vec::new(),
                    trouble: Some(error.to_string()),
                });
            }
        };
        if let Some(kind) = inspection.kinds.first().filter(|_| !inspection.kinds.contains(&Kind::Reward)) {
            return Err(plain(
                format!("`{reward}` is no reward but {}", kind.in_words()),
                "name a reward, as in --reward math; filters and advantages have sections of their own in a recipe",
            ));
        }
        let schema = &inspection.descriptor.config_schema;
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let meaning = |key: &str| {
            let property = &schema["properties"][key];
            let said = property["description"].as_str().or(property["type"].as_str());
            said.unwrap_or("see `whet plugin inspect`").to_owned()
        };
        Ok(Asked {
            required: required.map(|key| (key.to_owned(), meaning(key))).collect(),
            grants: inspection.needs_grants,
            trouble: None,
        })
    }
}

/// A path given to a command, which starts at the current directory, as it leads from `folder`.
fn from_folder(folder: &Path, given: &str) -> String {
    if Path::new(given).is_absolute() || given.contains("://") {
        return given.to_owned();
    }
    // Folders that exist are followed to where they are, so that `..` leads back out of them.
    let real = |folder: &Path| {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        folder.canonicalize().or_else(|_| std::path::absolute(folder)).unwrap_or_else(|_| folder.to_owned())
    };
    let given_path = Path::new(given);
    let (from, mut to) = (real(folder), real(given_path.parent().unwrap_or(Path::new(""))));
    to.extend(given_path.file_name());
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(to.components().skip(shared)).collect();
    path.to_string_lossy().into_owned()
}

/// The recipe's algorithm in formulas.
fn explain(recipe: &Recipe) -> String {
    let (rollout, algorithm, train) = (&recipe.rollout, &recipe.algorithm, &recipe.train);
    let line = |name: &str, text: &str| format!("{name:<11}{}\n", text.replace('\n', "\n           "));
    let more: String = task_words::explain(recipe).iter().map(|(name, text)| line(name, text)).collect();
    let clipped = match train.grad_clip {
        0.0 => "gradient not clipped".to_owned(),
        norm => format!("norm of the gradient at most {norm}"),
    };
    if recipe.task != Task::Rl {
        return format!(
            "task       {}\nstep       {} rows\n{more}updates    1 per step; AdamW, learning rate {:e}, {clipped}\nrun        {} steps\n",
            recipe.task.as_str(),
            train.batch_size,
            train.learning_rate,
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
         updates    {} per step; AdamW, learning rate {:e}, {clipped}\n\
         run        {} steps = {} responses\n",
        rollout.prompts_per_step,
        rollout.samples_per_prompt,
        rollout.max_tokens,
        rollout.temperature,
        algorithm.epochs * algorithm.minibatches,
        train.learning_rate,
        train.steps,
        train.steps * (rollout.prompts_per_step * rollout.samples_per_prompt) as u64,
    )
}
