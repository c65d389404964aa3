//! Training on preferences (DPO and its kin): which of two answers is better, without sampling.
//!
//! A pair's loss needs the log-probabilities of both its sequences, so both are in one micro-batch.

use crate::TrainError;
use crate::batch::to_list;
use crate::frozen::check;
use crate::layout::{Forest, Layout};
use crate::loss::PreferenceLoss;
use crate::sample::TrainSample;
use crate::trainer::Trainer;
use serde::Serialize;
use std::ops::Range;
use tch::Tensor;

/// Two answers to one prompt; the first is the better one. The answers are what the loss mask marks.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Preferred.
    pub chosen: TrainSample,
    /// Not preferred.
    pub rejected: TrainSample,
}

/// The reference's log-probabilities of a pair's answers: sums over their tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairLogProbs {
    /// Of the chosen answer.
    pub chosen: f64,
    /// Of the rejected one.
    pub rejected: f64,
}

/// What a batch of pairs found. All are means over the pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PreferenceMetrics {
    /// The loss.
    pub loss: f64,
    /// Part of the pairs whose chosen answer has the greater (implicit) reward; a tie counts half.
    pub accuracy: f64,
    /// Difference of the (implicit) rewards of chosen and rejected.
    pub margin: f64,
    /// (Implicit) reward of the chosen answers.
    pub chosen: f64,
    /// (Implicit) reward of the rejected answers.
    pub rejected: f64,
    /// Pairs.
    pub pairs: usize,
    /// Trained tokens, of both answers.
    pub tokens: usize,
}

impl PreferenceMetrics {
    /// Adds one pair's numbers, as its part of `pairs`.
    pub fn add(&mut self, loss: f64, chosen: f64, rejected: f64, pairs: usize) {
        let part = 1.0 / pairs as f64;
        self.loss += loss * part;
        self.accuracy += part * if chosen == rejected { 0.5 } else { f64::from(u8::from(chosen > rejected)) };
        self.margin += (chosen - rejected) * part;
        self.chosen += chosen * part;
        self.rejected += rejected * part;
        self.pairs += 1;
    }
}

impl PreferenceLoss {
    /// The numbers of pairs whose log-probabilities are known, without a gradient.
    ///
    /// * `policy`, `reference`: one entry per pair
    pub fn measure(
        self,
        pairs: &[Pair],
        policy: &[PairLogProbs],
        reference: &[PairLogProbs],
    ) -> PreferenceMetrics {
        let mut metrics = PreferenceMetrics::default();
        for ((pair, policy), reference) in pairs.iter().zip(policy).zip(reference) {
            let chosen = (policy.chosen - reference.chosen) * self.scale(&pair.chosen);
            let rejected = (policy.rejected - reference.rejected) * self.scale(&pair.rejected);
            let loss = self.value(chosen - rejected).0;
            metrics.add(loss, self.beta() * chosen, self.beta() * rejected, pairs.len());
        }
        metrics
    }

    /// What the loss counts of a sequence's log-probability.
    fn scale(self, sample: &TrainSample) -> f64 {
        if self.per_token() { 1.0 / sample.trained().max(1) as f64 } else { 1.0 }
    }
}

impl Trainer {
    /// Log-probabilities of each pair's answers under the policy as it is now: taken before the first update, they
    /// are the reference's. A pair's numbers do not depend on its neighbours.
    ///
    /// # Errors
    /// When a sample is malformed.
    pub fn pair_logprobs(&self, pairs: &[Pair]) -> Result<Vec<PairLogProbs>, TrainError> {
        let sum = |list: &[f32]| list.iter().map(|&lp| f64::from(lp)).sum::<f64>();
        let one = |pair: &Pair| {
            let both = [pair.chosen.clone(), pair.rejected.clone()];
            let lists = self.logprobs(&both, crate::Which::Policy, 1.0)?;
            Ok(PairLogProbs { chosen: sum(&lists[0]), rejected: sum(&lists[1]) })
        };
        pairs.iter().map(one).collect()
    }

    /// Adds the gradient of the mean loss of the pairs.
    ///
    /// * `reference`: one entry per pair
    ///
    /// # Errors
    /// When the loss or a sample makes no sense, before anything is computed.
    pub fn prefer(
        &mut self,
        pairs: &[Pair],
        reference: &[PairLogProbs],
        loss: PreferenceLoss,
    ) -> Result<PreferenceMetrics, TrainError> {
        loss.check()?;
        if reference.len() != pairs.len() {
            let reason =
                format!("{} pairs have {} reference log-probabilities", pairs.len(), reference.len());
            return Err(TrainError::Options(reason));
        }
        let samples: Vec<TrainSample> =
            pairs.iter().flat_map(|p| [p.chosen.clone(), p.rejected.clone()]).collect();
        check(&samples, self.body.config())?;
        let mut metrics = PreferenceMetrics::default();
        for part in whole_pairs(&samples, self.options.micro_batch_tokens) {
            let members: Vec<usize> =
                (part.start * 2..part.end * 2).filter(|&s| samples[s].trained() > 0).collect();
            let forest = Forest::new(&samples, &members);
            let layout = Layout::new(&samples, &forest, 0..members.len());
            self.pass(&layout, 1.0, |log_probs| {
                let mut sums = vec![0.0; samples.len()];
                for (target, value) in layout.targets.iter().zip(to_list(log_probs)?) {
                    sums[target.sample] += value;
                }
                let scale = |s: usize| loss.scale(&samples[s]);
                let mut slopes = vec![0.0; samples.len()];
                for pair in part.clone() {
                    let (c, r) = (2 * pair, 2 * pair + 1);
                    let chosen = (sums[c] - reference[pair].chosen) * scale(c);
                    let rejected = (sums[r] - reference[pair].rejected) * scale(r);
                    let (value, slope) = loss.value(chosen - rejected);
                    slopes[c] = slope * scale(c) / pairs.len() as f64;
                    slopes[r] = -slope * scale(r) / pairs.len() as f64;
                    metrics.add(value, loss.beta() * chosen, loss.beta() * rejected, pairs.len());
                }
                let grad: Vec<f64> = layout.targets.iter().map(|t| slopes[t.sample]).collect();
                Ok(Tensor::from_slice(&grad))
            })?;
            metrics.tokens += layout.targets.len();
        }
        Ok(metrics)
    }
}

/// Cuts pairs, which lie one after another, into runs of at most `budget` tokens, unless one pair alone has more.
pub(crate) fn whole_pairs(samples: &[TrainSample], budget: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut start, mut tokens) = (0, 0);
    for (index, pair) in samples.chunks(2).enumerate() {
        let length: usize = pair.iter().map(|s| s.computed().len()).sum();
        if index > start && tokens + length > budget {
            parts.push(start..index);
            (start, tokens) = (index, 0);
        }
        tokens += length;
    }
    if start * 2 < samples.len() {
        parts.push(start..samples.len() / 2);
    }
    parts
}
