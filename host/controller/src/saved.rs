//! A run's model as its checkpoints have it: for measuring, generating and exporting.

use crate::checkpoint::{Checkpoints, Saved, verify};
use crate::offline::reward_model;
use crate::setup::{LoadedModel, load_model};
use crate::{RunError, directory, options};
use std::path::{Path, PathBuf};
use whet_recipe::{Recipe, Task};
use whet_trainer::Trainer;

/// A trained model and where it comes from.
pub struct SavedModel {
    /// The run's recipe.
    pub recipe: Recipe,
    /// The model with the trained weights, adapters merged.
    pub model: LoadedModel,
    /// What training was going on with, for what only it can export.
    pub trained: Trained,
    /// Steps behind the weights.
    pub step: u64,
}

/// What was trained.
pub enum Trained {
    /// A language model.
    Policy(Box<Trainer>),
    /// A reward model.
    Scorer,
}

/// Whether `path` is a run directory, or a checkpoint in one.
pub fn is_run(path: &Path) -> bool {
    path.join("recipe.resolved.toml").exists() || run_of(path).is_some()
}

/// The recipe of a run, and its latest whole checkpoint, or the checkpoint that `path` itself is.
pub fn find_saved(path: &Path) -> Result<(Recipe, Saved), RunError> {
    let (run, saved) = match run_of(path) {
        Some(run) => (run, verify(path)?),
        None => (path.to_owned(), latest(path)?),
    };
    Ok((directory::recorded_recipe(&run)?, saved))
}

/// Loads the latest whole checkpoint of a run directory, or the checkpoint that `path` itself is.
pub fn load_saved(path: &Path) -> Result<SavedModel, RunError> {
    let (recipe, saved) = find_saved(path)?;
    let state = saved.path.join("trainer");
    if recipe.task == Task::RewardModel {
        let mut model = reward_model::load(&recipe)?;
        let mut scorer = reward_model::value_model(&recipe, &mut model)?;
        scorer.load(&state)?;
        model.checkpoint.weights = scorer.weights().into_iter().collect();
        return Ok(SavedModel { recipe, model, trained: Trained::Scorer, step: saved.step });
    }
    let mut model = load_model(&recipe)?;
    let options = options::train(&recipe, model.kind, model.device);
    let weights = std::mem::take(&mut model.checkpoint.weights);
    let mut trainer = Trainer::new(&model.checkpoint.config, weights, options)?;
    trainer.load(&state)?;
    model.checkpoint.weights = trainer.weights().into_iter().collect();
    Ok(SavedModel { recipe, model, trained: Trained::Policy(Box::new(trainer)), step: saved.step })
}

impl SavedModel {
    /// Writes the model in Hugging Face layout: a language model, or a sequence classifier with one label.
    pub fn export(&self, output: &Path) -> Result<(), RunError> {
        let checkpoint = &self.model.checkpoint;
        match &self.trained {
            Trained::Policy(_) => whet_model::save(output, &checkpoint.files, &checkpoint.weights)?,
            Trained::Scorer => {
                let padding = checkpoint.padding();
                whet_model::save_scored(output, &checkpoint.files, &checkpoint.weights, padding)?;
            }
        }
        Ok(())
    }

    /// Writes the adapter alone, in PEFT's layout.
    pub fn export_adapter(&self, output: &Path) -> Result<(), RunError> {
        match &self.trained {
            Trained::Policy(trainer) => Ok(trainer.export_adapter(output, &self.recipe.model.source)?),
            Trained::Scorer => {
                let reason = "a reward model's head belongs to no adapter: export the merged model instead";
                Err(whet_trainer::TrainError::Options(reason.into()).into())
            }
        }
    }
}

/// The run directory of `runs/x/checkpoints/step-000010`.
fn run_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let checkpoints = path.parent().filter(|p| p.ends_with("checkpoints"))?;
    let run = checkpoints.parent()?;
    let in_run = name.starts_with("step-") && path.is_dir() && run.join("recipe.resolved.toml").exists();
    in_run.then(|| run.to_owned())
}

fn latest(run: &Path) -> Result<Saved, RunError> {
    let dir = run.join("checkpoints");
    if !dir.is_dir() {
        return Err(RunError::NoCheckpoint { dir: run.to_owned() });
    }
    // Looking only: a run that is writing there now keeps its unfinished folders.
    let (latest, _) = Checkpoints::look(&dir).latest()?;
    latest.ok_or_else(|| RunError::NoCheckpoint { dir: run.to_owned() })
}
