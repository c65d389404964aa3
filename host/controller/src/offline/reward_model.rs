//! A reward model: a scalar head learns which of two answers is preferred.

use crate::offline::preference::{numbers, pairs, read};
use crate::offline::{About, Lessons, computed};
use crate::setup::LoadedModel;
use crate::{RunError, options, setup};
use std::path::Path;
use whet_observe::Metrics;
use whet_recipe::Recipe;
use whet_trainer::loss::bradley_terry;
use whet_trainer::{Pair, PreferenceMetrics, StepMetrics, TextPair, ValueModel};

struct RewardModel {
    model: ValueModel,
    train: Vec<TextPair>,
    test: Vec<TextPair>,
}

/// Loads the model and the pairs.
pub(crate) fn start(recipe: &Recipe) -> Result<(Box<dyn Lessons>, About), RunError> {
    let rows = read(recipe)?;
    let mut loaded = load(recipe)?;
    let pairs = pairs(recipe, &rows, &loaded.checkpoint)?;
    let padding = loaded.checkpoint.padding();
    let texts = |pairs: &[Pair]| -> Vec<TextPair> { pairs.iter().map(|pair| texts(pair, padding)).collect() };
    let (train, test) = (texts(&pairs.train), texts(&pairs.test));
    let model = value_model(recipe, &mut loaded)?;
    let about = pairs.about(&rows, model.trained_parameters(), computed(&loaded));
    Ok((Box::new(RewardModel { model, train, test }), about))
}

/// The recipe's model, or the reward model that it names.
pub(crate) fn load(recipe: &Recipe) -> Result<LoadedModel, RunError> {
    let device = whet_model::device(&recipe.model.device.to_string())?;
    setup::load_scored(&recipe.model.source, recipe.model.dtype, device)
}

/// The model that the recipe trains, which takes the loaded weights over.
pub(crate) fn value_model(recipe: &Recipe, loaded: &mut LoadedModel) -> Result<ValueModel, RunError> {
    let options = options::train(recipe, loaded.kind, loaded.device);
    let weights = std::mem::take(&mut loaded.checkpoint.weights);
    Ok(ValueModel::new(&loaded.checkpoint.config, weights, options)?)
}

/// Whole texts. transformers reads the score at the last token that is no padding, and so do we.
fn texts(pair: &Pair, padding: Option<u32>) -> TextPair {
    let text = |tokens: &[u32]| {
        let kept = tokens.iter().rposition(|t| Some(*t) != padding).map_or(tokens.len(), |last| last + 1);
        tokens[..kept].to_vec()
    };
    TextPair { chosen: text(&pair.chosen.tokens), rejected: text(&pair.rejected.tokens) }
}

impl Lessons for RewardModel {
    fn rows(&self) -> usize {
        self.train.len()
    }

    fn step(&mut self, rows: &[usize]) -> Result<(Metrics, StepMetrics), RunError> {
        let pairs: Vec<TextPair> = rows.iter().map(|&row| self.train[row].clone()).collect();
        let found = self.model.compare(&pairs)?;
        let update = self.model.optimiser_step();
        let mut metrics = numbers("train", &found);
        metrics.insert("train/tokens".into(), found.tokens as f64);
        Ok((metrics, update))
    }

    fn measure(&mut self) -> Result<Metrics, RunError> {
        if self.test.is_empty() {
            return Ok(Metrics::new());
        }
        let scores = |pick: fn(&TextPair) -> &Vec<u32>| {
            self.model.scores(&self.test.iter().map(pick).cloned().collect::<Vec<_>>())
        };
        let (chosen, rejected) = (scores(|p| &p.chosen)?, scores(|p| &p.rejected)?);
        let mut found = PreferenceMetrics::default();
        for (chosen, rejected) in chosen.iter().zip(&rejected) {
            found.add(bradley_terry(chosen - rejected).0, *chosen, *rejected, self.test.len());
        }
        Ok(numbers("eval", &found))
    }

    fn save(&self, dir: &Path) -> Result<(), RunError> {
        Ok(self.model.save(&dir.join("trainer"))?)
    }

    fn load(&mut self, dir: &Path) -> Result<(), RunError> {
        Ok(self.model.load(&dir.join("trainer"))?)
    }

    fn shown(&self) -> (&'static str, &'static str) {
        ("train/accuracy", "accuracy")
    }
}
