//! Preferences: pairs of answers as tokens, and direct preference optimisation, which learns from them.

use crate::offline::{About, Lessons, computed, digest, too_long};
use crate::{RunError, options, setup};
use std::collections::HashMap;
use std::path::Path;
use whet_model::Checkpoint;
use whet_observe::Metrics;
use whet_recipe::data::{PreferenceRow, Preferences, preferences, test_preferences};
use whet_recipe::{DpoLoss, Recipe};
use whet_trainer::loss::PreferenceLoss;
use whet_trainer::{Pair, PairLogProbs, PreferenceMetrics, StepMetrics, TrainSample, Trainer};
use whet_trajectory::{GroupId, Message, SampleId};

struct Dpo {
    trainer: Trainer,
    loss: PreferenceLoss,
    train: Vec<Pair>,
    test: Vec<Pair>,
    /// What the reference says of the pairs that will be learnt from, by row.
    reference: HashMap<usize, PairLogProbs>,
    /// And of those to measure on.
    test_reference: Vec<PairLogProbs>,
}

/// Loads the model and the pairs.
pub(crate) fn start(recipe: &Recipe) -> Result<(Box<dyn Lessons>, About), RunError> {
    let rows = read(recipe)?;
    let mut model = setup::load_model(recipe)?;
    let pairs = pairs(recipe, &rows, &model.checkpoint)?;
    let options = options::train(recipe, model.kind, model.device);
    let weights = std::mem::take(&mut model.checkpoint.weights);
    let trainer = Trainer::new(&model.checkpoint.config, weights, options)?;
    let about = pairs.about(&rows, trainer.trained_parameters(), computed(&model));
    let dpo = recipe.dpo.clone().unwrap_or_default();
    let loss = match dpo.loss {
        DpoLoss::Sigmoid => PreferenceLoss::Sigmoid { beta: dpo.beta, smoothing: dpo.label_smoothing },
        DpoLoss::Hinge => PreferenceLoss::Hinge { beta: dpo.beta },
        DpoLoss::Ipo => PreferenceLoss::Ipo { beta: dpo.beta },
    };
    let (train, test) = (pairs.train, pairs.test);
    let (reference, test_reference) = (HashMap::new(), Vec::new());
    Ok((Box::new(Dpo { trainer, loss, train, test, reference, test_reference }), about))
}

/// The recipe's rows of two answers.
pub(crate) struct PairRows {
    pub train: Preferences,
    pub test: Vec<PreferenceRow>,
}

/// Reads the data files.
pub(crate) fn read(recipe: &Recipe) -> Result<PairRows, RunError> {
    let train = preferences(&recipe.data)?;
    let mut test = Vec::new();
    if let Some(eval) = &recipe.eval {
        test = test_preferences(&recipe.data)?.rows;
        test.truncate(eval.prompts.unwrap_or(usize::MAX));
    }
    Ok(PairRows { train, test })
}

/// Pairs to learn from and to measure on.
pub(crate) struct Pairs {
    pub train: Vec<Pair>,
    pub test: Vec<Pair>,
    too_long: usize,
}

impl Pairs {
    pub fn about(&self, rows: &PairRows, weights: usize, computed: (String, String)) -> About {
        let mut left_out: Vec<String> = too_long(self.too_long).into_iter().collect();
        let equal = rows.train.equal;
        if equal > 0 {
            left_out.push(format!("{equal} rows have twice the same answer and are left out"));
        }
        let parts = self.train.iter().map(|p| (&p.chosen.id, &p.chosen.tokens, &p.rejected.tokens));
        About {
            all: rows.train.rows.len() + equal,
            test: self.test.len(),
            left_out,
            digest: digest(parts),
            weights,
            computed,
        }
    }
}

/// The pairs of rows as tokens.
pub(crate) fn pairs(recipe: &Recipe, rows: &PairRows, model: &Checkpoint) -> Result<Pairs, RunError> {
    let mut left_out = [0; 2];
    let mut made = Vec::new();
    for (rows, count) in [&rows.train.rows, &rows.test].into_iter().zip(&mut left_out) {
        let mut pairs = Vec::with_capacity(rows.len());
        for row in rows {
            match pair(recipe, row, model)? {
                Some(pair) => pairs.push(pair),
                None => *count += 1,
            }
        }
        made.push(pairs);
    }
    let test = made.pop().unwrap_or_default();
    let train = made.pop().unwrap_or_default();
    for (what, pairs, all, too_long) in [
        ("data.train", &train, rows.train.rows.len(), left_out[0]),
        ("data.test", &test, rows.test.len(), left_out[1]),
    ] {
        if pairs.is_empty() && (all > 0 || what == "data.train") {
            return Err(RunError::NoTexts { what, all, too_long, useless: rows.train.equal });
        }
    }
    Ok(Pairs { train, test, too_long: left_out[0] })
}

/// A row's two texts; `None` where one is too long.
fn pair(recipe: &Recipe, row: &PreferenceRow, model: &Checkpoint) -> Result<Option<Pair>, RunError> {
    let style = setup::prompt_style(recipe, model);
    let longest = recipe.data.max_tokens.min(model.config.max_positions);
    let one = |answer: &[Message]| -> Result<Option<TrainSample>, RunError> {
        let messages: Vec<Message> = row.prompt.iter().chain(answer).cloned().collect();
        let learnt = |i: usize| i >= row.prompt.len();
        let text = style.text(&messages, &learnt, &model.config.eos, &row.origin.to_string())?;
        let fits = text.ids.len() <= longest && text.learnt.contains(&true);
        let (id, group) = (SampleId(row.id.clone()), GroupId(row.id.clone()));
        Ok(fits.then(|| TrainSample::given(id, group, text.ids, text.learnt)))
    };
    Ok(one(&row.chosen)?.zip(one(&row.rejected)?).map(|(chosen, rejected)| Pair { chosen, rejected }))
}

/// The numbers of a batch of pairs, under a prefix.
pub(crate) fn numbers(prefix: &str, found: &PreferenceMetrics) -> Metrics {
    let numbers = [
        ("loss", found.loss),
        ("accuracy", found.accuracy),
        ("margin", found.margin),
        ("reward_chosen", found.chosen),
        ("reward_rejected", found.rejected),
        ("samples", found.pairs as f64),
    ];
    numbers.into_iter().map(|(name, value)| (format!("{prefix}/{name}"), value)).collect()
}

impl Lessons for Dpo {
    fn rows(&self) -> usize {
        self.train.len()
    }

    /// The weights are still those that training begins with, so that they are the reference.
    fn prepare(&mut self, rows: &[usize]) -> Result<(), RunError> {
        for &row in rows {
            let found = self.trainer.pair_logprobs(std::slice::from_ref(&self.train[row]))?;
            self.reference.extend(found.into_iter().map(|found| (row, found)));
        }
        self.test_reference = self.trainer.pair_logprobs(&self.test)?;
        Ok(())
    }

    fn step(&mut self, rows: &[usize]) -> Result<(Metrics, StepMetrics), RunError> {
        let pairs: Vec<Pair> = rows.iter().map(|&row| self.train[row].clone()).collect();
        let reference: Vec<PairLogProbs> =
            rows.iter().filter_map(|row| self.reference.get(row).copied()).collect();
        let found = self.trainer.prefer(&pairs, &reference, self.loss)?;
        let update = self.trainer.optimiser_step();
        let mut metrics = numbers("train", &found);
        metrics.insert("train/tokens".into(), found.tokens as f64);
        Ok((metrics, update))
    }

    fn measure(&mut self) -> Result<Metrics, RunError> {
        if self.test.is_empty() {
            return Ok(Metrics::new());
        }
        let policy = self.trainer.pair_logprobs(&self.test)?;
        let found = self.loss.measure(&self.test, &policy, &self.test_reference);
        Ok(numbers("eval", &found))
    }

    fn save(&self, dir: &Path) -> Result<(), RunError> {
        Ok(self.trainer.save(&dir.join("trainer"))?)
    }

    fn load(&mut self, dir: &Path) -> Result<(), RunError> {
        Ok(self.trainer.load(&dir.join("trainer"))?)
    }

    fn shown(&self) -> (&'static str, &'static str) {
        ("train/accuracy", "accuracy")
    }
}
