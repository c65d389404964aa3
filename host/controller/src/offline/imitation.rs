//! Supervised fine-tuning: the model imitates the answers of the data.

use crate::offline::conversation::Text;
use crate::offline::{About, Lessons, computed, digest, too_long};
use crate::{RunError, options, setup};
use std::path::Path;
use whet_model::Checkpoint;
use whet_observe::Metrics;
use whet_recipe::data::Row;
use whet_recipe::{PromptFormat, Recipe, Turns};
use whet_trainer::{StepMetrics, TrainSample, Trainer};
use whet_trajectory::{GroupId, Message, Role, SampleId};

/// Rows measured in one call, so that a stop is not waited for too long.
const MEASURED_AT_ONCE: usize = 64;

struct Imitation {
    trainer: Trainer,
    train: Vec<TrainSample>,
    test: Vec<TrainSample>,
    reduction: whet_algorithm::Reduction,
}

/// Loads the model and the texts.
pub(crate) fn start(recipe: &Recipe) -> Result<(Box<dyn Lessons>, About), RunError> {
    let rows = setup::read_rows(recipe)?;
    let mut model = setup::load_model(recipe)?;
    let train = texts("data.train", recipe, &rows.train, &model.checkpoint)?;
    let test = match rows.test.is_empty() {
        true => Texts::default(),
        false => texts("data.test", recipe, &rows.test, &model.checkpoint)?,
    };
    let options = options::train(recipe, model.kind, model.device);
    let weights = std::mem::take(&mut model.checkpoint.weights);
    let trainer = Trainer::new(&model.checkpoint.config, weights, options)?;
    let left_out = train.left_out();
    let about = About {
        all: rows.train.len(),
        test: test.samples.len(),
        left_out,
        digest: digest(train.samples.iter().map(|s| (&s.id, &s.tokens, &s.loss_mask))),
        weights: trainer.trained_parameters(),
        computed: computed(&model),
    };
    let reduction = whet_algorithm::Reduction::TokenMean;
    let imitation = Imitation { trainer, train: train.samples, test: test.samples, reduction };
    Ok((Box::new(imitation), about))
}

/// Texts of rows, and how many rows did not become one.
#[derive(Default)]
pub(crate) struct Texts {
    pub samples: Vec<TrainSample>,
    too_long: usize,
    /// Rows of which no token is learnt.
    empty: usize,
}

impl Texts {
    /// Rows that did not become a text, as sentences.
    pub fn left_out(&self) -> Vec<String> {
        let mut sentences: Vec<String> = too_long(self.too_long).into_iter().collect();
        if self.empty > 0 {
            sentences.push(format!("{} rows have nothing to learn and are left out", self.empty));
        }
        sentences
    }
}

/// The texts of rows; `what` names these in errors.
pub(crate) fn texts(
    what: &'static str,
    recipe: &Recipe,
    rows: &[Row],
    model: &Checkpoint,
) -> Result<Texts, RunError> {
    let longest = recipe.data.max_tokens.min(model.config.max_positions);
    let mut found = Texts::default();
    for row in rows {
        let Text { ids, learnt } = text(recipe, row, model)?;
        if ids.len() > longest {
            found.too_long += 1;
        } else if !learnt.contains(&true) {
            found.empty += 1;
        } else {
            let (id, group) = (SampleId(row.id.clone()), GroupId(row.id.clone()));
            found.samples.push(TrainSample::given(id, group, ids, learnt));
        }
    }
    match found.samples.is_empty() {
        true => {
            Err(RunError::NoTexts { what, all: rows.len(), too_long: found.too_long, useless: found.empty })
        }
        false => Ok(found),
    }
}

/// A row's prompt, with its label as the answer where it has one.
fn text(recipe: &Recipe, row: &Row, model: &Checkpoint) -> Result<Text, RunError> {
    let style = setup::prompt_style(recipe, model);
    let mut messages = row.prompt.clone();
    if let Some(answer) = &row.label {
        messages.push(Message::text(Role::Assistant, answer));
    }
    let assistant = |i: usize| messages[i].role == Role::Assistant;
    let last = (0..messages.len()).rev().find(|&i| assistant(i));
    let only_last = recipe.sft.as_ref().is_some_and(|sft| sft.turns == Turns::Last);
    let raw = recipe.data.prompt_format == PromptFormat::Raw;
    // Solved examples are shown, not learnt: they are the same in every row.
    let shown = if raw { 0 } else { shown_before(recipe, &messages) };
    let learnt = |i: usize| assistant(i) && i >= shown && (!only_last || Some(i) == last);
    style.text(&messages, &learnt, &model.config.eos, &row.origin.to_string())
}

/// Messages of the recipe's own, its system message and solved examples, that stand before a row's.
fn shown_before(recipe: &Recipe, messages: &[Message]) -> usize {
    if recipe.data.examples.is_none() {
        return 0;
    }
    let turns = match &recipe.data.examples {
        Some(whet_recipe::Examples::Inline(list)) => 2 * list.len(),
        // The rows of a file are turns of user and assistant too.
        Some(whet_recipe::Examples::File(path)) => whet_recipe::data::open(path, &recipe.data.columns)
            .map_or(0, |rows| rows.rows.iter().map(|row| row.prompt.len() + 1).sum()),
        None => 0,
    };
    messages.iter().take_while(|m| m.role == Role::System).count() + turns
}

impl Lessons for Imitation {
    fn rows(&self) -> usize {
        self.train.len()
    }

    fn step(&mut self, rows: &[usize]) -> Result<(Metrics, StepMetrics), RunError> {
        let samples: Vec<TrainSample> = rows.iter().map(|&row| self.train[row].clone()).collect();
        let found = self.trainer.imitate(&samples, self.reduction)?;
        let update = self.trainer.optimiser_step();
        let metrics = [
            ("train/loss", found.loss),
            ("train/perplexity", found.cross_entropy.exp()),
            ("train/tokens", found.tokens as f64),
            ("train/rows", found.rows as f64),
            ("train/samples", samples.len() as f64),
        ];
        Ok((metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(), update))
    }

    fn measure(&mut self) -> Result<Metrics, RunError> {
        let mut metrics = Metrics::new();
        let (mut sum, mut tokens) = (0.0, 0);
        for part in self.test.chunks(MEASURED_AT_ONCE) {
            let count: usize = part.iter().map(TrainSample::trained).sum();
            sum += self.trainer.cross_entropy(part)? * count as f64;
            tokens += count;
        }
        if tokens > 0 {
            let loss = sum / tokens as f64;
            for (name, value) in [
                ("eval/loss", loss),
                ("eval/perplexity", loss.exp()),
                ("eval/samples", self.test.len() as f64),
            ] {
                metrics.insert(name.into(), value);
            }
        }
        Ok(metrics)
    }

    fn save(&self, dir: &Path) -> Result<(), RunError> {
        Ok(self.trainer.save(&dir.join("trainer"))?)
    }

    fn load(&mut self, dir: &Path) -> Result<(), RunError> {
        Ok(self.trainer.load(&dir.join("trainer"))?)
    }

    fn shown(&self) -> (&'static str, &'static str) {
        ("train/perplexity", "perplexity")
    }
}
