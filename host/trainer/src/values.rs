//! A decoder with a scalar head: a critic, which says what is to be expected at every token, or a reward
//! model, which says how good a whole text is.
//!
//! The head is `score.weight` `[1, H]`, as transformers' sequence classifiers have it; it starts at zero, so
//! that an untrained critic expects nothing and an untrained reward model prefers nothing. Scores are computed
//! in at least f32, since a bf16 score has three digits.

use crate::batch::to_list;
use crate::body::{Body, Pass, SCORE};
use crate::frozen::{self, check};
use crate::head::wide;
use crate::layout::{Forest, Layout};
use crate::loss::{ValueLoss, bradley_terry, tensor, value};
use crate::metrics::StepMetrics;
use crate::optimiser::{Parameter, master_kind};
use crate::preference::{PreferenceMetrics, whole_pairs};
use crate::sample::TrainSample;
use crate::trainer::{Start, TrainOptions};
use crate::{TrainError, checkpoint};
use serde::Serialize;
use std::path::Path;
use tch::{Kind, Tensor};
use whet_algorithm::{Reduction, reduction};
use whet_model::{Config, Weights};
use whet_trajectory::{GroupId, SampleId, WeightVersion};

/// A decoder with a scalar head, in training.
pub struct ValueModel {
    options: TrainOptions,
    body: Body,
    /// `[1, H]`, in at least f32.
    score: Tensor,
    version: u64,
}

/// What a critic learns from at the trained tokens of a sample; lists have one entry per token.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Values before the first update of the batch.
    pub old: Vec<f32>,
    /// Returns.
    pub returns: Vec<f32>,
}

/// What a critic's batch found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ValueMetrics {
    /// The loss.
    pub loss: f64,
    /// Part of the tokens whose clipped value decided the loss.
    pub clip_fraction: f64,
    /// Mean value.
    pub value: f64,
    /// Mean return.
    pub returns: f64,
    /// Trained tokens.
    pub tokens: usize,
}

/// Two texts; the first is the better one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPair {
    /// Tokens of the preferred text.
    pub chosen: Vec<u32>,
    /// Tokens of the other.
    pub rejected: Vec<u32>,
}

impl ValueModel {
    /// A model that starts from a decoder's `weights`, which it takes over as a trainer does, and from their
    /// `score.weight`, or zero where there is none. An output layer of its own is dropped.
    ///
    /// # Errors
    /// When weights do not fit the configuration, or an option makes no sense.
    pub fn new(
        config: &Config,
        mut weights: Weights,
        options: TrainOptions,
    ) -> Result<ValueModel, TrainError> {
        let (kind, device) = (master_kind(options.kind), options.device);
        let shape = [1, config.hidden_size as i64];
        let score = match weights.remove(SCORE) {
            Some(score) if score.size() == shape => score.to_device(device).to_kind(kind),
            Some(score) => {
                let reason =
                    format!("`{SCORE}` is {:?}, not one score of {} numbers", score.size(), shape[1]);
                return Err(TrainError::Options(reason));
            }
            None => Tensor::zeros(shape, (kind, device)),
        };
        // The decoder's shape asks for an output layer; the embedding stands in for one that is not used.
        let config = Config { tied: true, ..config.clone() };
        weights.remove("lm_head.weight");
        let start = Start::new(&config, weights, &options)?;
        let score = score.detach();
        let head = vec![Parameter::new(SCORE.to_owned(), &score, &score)];
        let body = Body::new(start, head, &options)?;
        Ok(ValueModel { options, body, score, version: 0 })
    }

    /// Updates behind the weights.
    pub fn version(&self) -> WeightVersion {
        WeightVersion(self.version)
    }

    /// Number of trained numbers.
    pub fn trained_parameters(&self) -> usize {
        self.body.trained()
    }

    /// The value of every trained token, 0 at the others: what is to be expected from the state in which it is chosen,
    /// so that it is read where the token is predicted.
    ///
    /// # Errors
    /// When a sample is malformed.
    pub fn values(&self, samples: &[TrainSample]) -> Result<Vec<Vec<f32>>, TrainError> {
        check(samples, self.body.config())?;
        let budget = self.options.micro_batch_tokens;
        frozen::logprobs(samples, budget, self.options.device, |packed, layout| {
            Ok(self.at_targets(&self.body.hidden(packed, layout)?, layout))
        })
    }

    /// Adds the gradient of the critic's loss of the whole batch, however it is cut into micro-batches.
    ///
    /// * `goals`: one per sample
    ///
    /// # Errors
    /// When a sample or a goal is malformed, before anything is computed.
    pub fn forward_backward(
        &mut self,
        samples: &[TrainSample],
        goals: &[Goal],
        loss: ValueLoss,
        reduction: Reduction,
    ) -> Result<ValueMetrics, TrainError> {
        check(samples, self.body.config())?;
        check_goals(samples, goals)?;
        let lengths: Vec<usize> = samples.iter().map(TrainSample::trained).collect();
        let weights = reduction.weights(&lengths, reduction::trained(&lengths));
        let members: Vec<usize> = (0..samples.len()).filter(|&s| lengths[s] > 0).collect();
        let mut metrics = ValueMetrics { tokens: lengths.iter().sum(), ..ValueMetrics::default() };
        let forest = Forest::new(samples, &members);
        for part in forest.cut(samples, self.options.micro_batch_tokens) {
            let layout = Layout::new(samples, &forest, part);
            let list = |of: &dyn Fn(usize, usize) -> f64| {
                let values: Vec<f64> = layout.targets.iter().map(|t| of(t.sample, t.position)).collect();
                tensor(&values, Kind::Double)
            };
            let old = list(&|s, t| f64::from(goals[s].old[t]));
            let returns = list(&|s, t| f64::from(goals[s].returns[t]));
            let weight = list(&|s, _| weights[s]);
            self.pass(&layout, |values| {
                let leaf = tensor(values, Kind::Double).set_requires_grad(true);
                let (losses, clipped) = value(loss, &leaf, &old, &returns);
                let total = (losses * &weight).sum(Kind::Double);
                metrics.loss += total.double_value(&[]);
                metrics.clip_fraction += clipped.sum(Kind::Double).double_value(&[]);
                metrics.value += values.iter().sum::<f64>();
                metrics.returns += returns.sum(Kind::Double).double_value(&[]);
                to_list(&Tensor::f_run_backward(&[&total], &[&leaf], false, false)?.remove(0))
            })?;
        }
        for sum in [&mut metrics.clip_fraction, &mut metrics.value, &mut metrics.returns] {
            *sum /= metrics.tokens.max(1) as f64;
        }
        Ok(metrics)
    }

    /// The score of whole texts, read at the last token, one at a time, so that none depends on its neighbours.
    ///
    /// # Errors
    /// When a text is empty or has a token outside the vocabulary.
    pub fn scores(&self, texts: &[Vec<u32>]) -> Result<Vec<f64>, TrainError> {
        let one = |text: &Vec<u32>| {
            let values = self.values(&[whole(text)])?;
            Ok(values.first().and_then(|list| list.last()).map_or(0.0, |&v| f64::from(v)))
        };
        texts.iter().map(one).collect()
    }

    /// Adds the gradient of the mean over pairs of `-log σ(score(chosen) - score(rejected))`.
    ///
    /// # Errors
    /// When a text is empty or has a token outside the vocabulary, before anything is computed.
    pub fn compare(&mut self, pairs: &[TextPair]) -> Result<PreferenceMetrics, TrainError> {
        let samples: Vec<TrainSample> =
            pairs.iter().flat_map(|p| [whole(&p.chosen), whole(&p.rejected)]).collect();
        check(&samples, self.body.config())?;
        let mut metrics = PreferenceMetrics::default();
        for part in whole_pairs(&samples, self.options.micro_batch_tokens) {
            let members: Vec<usize> = (part.start * 2..part.end * 2).collect();
            let forest = Forest::new(&samples, &members);
            let layout = Layout::new(&samples, &forest, 0..members.len());
            let place = |sample: usize| layout.targets.iter().position(|t| t.sample == sample);
            self.pass(&layout, |scores| {
                let mut grad = vec![0.0; scores.len()];
                for pair in part.clone() {
                    // Each text has one target.
                    let (Some(c), Some(r)) = (place(2 * pair), place(2 * pair + 1)) else { continue };
                    let (loss, slope) = bradley_terry(scores[c] - scores[r]);
                    grad[c] = slope / pairs.len() as f64;
                    grad[r] = -slope / pairs.len() as f64;
                    metrics.add(loss, scores[c], scores[r], pairs.len());
                }
                Ok(grad)
            })?;
            metrics.tokens += layout.ids.len();
        }
        Ok(metrics)
    }

    /// Updates the weights with the gradient, clipped, and forgets it. A gradient that is not finite
    /// changes nothing and is reported.
    pub fn optimiser_step(&mut self) -> StepMetrics {
        let TrainOptions { adam, schedule, clip_norm, .. } = self.options;
        self.body.update(adam, schedule, clip_norm, &mut self.version)
    }

    /// The gradient since the last update, in full precision, by parameter; zero where none was added.
    pub fn gradients(&self) -> Vec<(String, Tensor)> {
        self.body.gradients()
    }

    /// All weights in Hugging Face names and the compute kind, `score.weight` among them, adapters merged.
    pub fn weights(&self) -> Vec<(String, Tensor)> {
        let mut weights = self.body.weights();
        weights.push((SCORE.to_owned(), self.score.detach().to_kind(self.options.kind)));
        weights
    }

    /// Writes masters, moments and version to `dir`, whole or not at all.
    ///
    /// # Errors
    /// When the disk refuses; what was there before is kept.
    pub fn save(&self, dir: &Path) -> Result<(), TrainError> {
        checkpoint::save(dir, &self.body.parameters, self.version)
    }

    /// Goes on from what [`ValueModel::save`] wrote.
    ///
    /// # Errors
    /// [`crate::CheckpointError`] when it is torn or of another model.
    pub fn load(&mut self, dir: &Path) -> Result<(), TrainError> {
        self.version = self.body.load(dir)?;
        Ok(())
    }

    /// Forward and backward of one micro-batch; `gradient` turns the targets' values into the gradient at each.
    fn pass(
        &mut self,
        layout: &Layout,
        gradient: impl FnOnce(&[f64]) -> Result<Vec<f64>, TrainError>,
    ) -> Result<(), TrainError> {
        let pass: Pass = self.body.forward(layout)?;
        let hidden = pass.hidden();
        let values = to_list(&self.at_targets(&hidden, layout))?;
        let mut by_row = vec![0.0; layout.rows.len()];
        for (target, grad) in layout.targets.iter().zip(gradient(&values)?) {
            by_row[target.row] += grad;
        }
        let at_hidden = {
            let _guard = tch::no_grad_guard();
            let kind = wide(hidden.kind());
            let grad = Tensor::from_slice(&by_row).to_kind(kind).to_device(self.options.device).unsqueeze(1);
            if let Some(total) = self.body.head_grad() {
                let _ = total.g_add_(&grad.tr().matmul(&hidden.to_kind(kind)));
            }
            (grad * &self.score).to_kind(hidden.kind())
        };
        self.body.backward(pass, &at_hidden)
    }

    /// The value at every target, `[N]`.
    fn at_targets(&self, hidden: &Tensor, layout: &Layout) -> Tensor {
        let _guard = tch::no_grad_guard();
        let values = hidden.to_kind(wide(hidden.kind())).matmul(&self.score.tr()).squeeze_dim(1);
        let rows: Vec<i64> = layout.targets.iter().map(|t| t.row as i64).collect();
        values.index_select(0, &Tensor::from_slice(&rows).to_device(values.device()))
    }
}

/// A text whose last token is read: the token that would follow it is stood in for by one that nothing looks at.
fn whole(text: &[u32]) -> TrainSample {
    let tokens: Vec<u32> = text.iter().copied().chain([0]).collect();
    let mask = (0..tokens.len()).map(|t| t + 1 == tokens.len()).collect();
    TrainSample::given(SampleId::from("text"), GroupId::from("text"), tokens, mask)
}

fn check_goals(samples: &[TrainSample], goals: &[Goal]) -> Result<(), TrainError> {
    let wrong = |reason: String| Err(TrainError::Options(reason));
    if goals.len() != samples.len() {
        return wrong(format!("{} samples have {} goals", samples.len(), goals.len()));
    }
    for (sample, goal) in samples.iter().zip(goals) {
        for (list, values) in [("old", &goal.old), ("returns", &goal.returns)] {
            let trained = |t: &usize| sample.loss_mask[*t];
            if values.len() != sample.tokens.len() {
                return wrong(format!("sample {}: `{list}` has {} entries", sample.id, values.len()));
            }
            if let Some(t) = (0..values.len()).filter(trained).find(|&t| !values[t].is_finite()) {
                return wrong(format!(
                    "sample {}: `{list}` is {} at trained token {t}",
                    sample.id, values[t]
                ));
            }
        }
    }
    Ok(())
}
