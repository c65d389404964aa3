//! The loss of a whole batch, and its gradient at every token of a part of it.

use crate::TrainError;
use crate::head::LogProbs;
use crate::layout::{Layout, Target};
use crate::loss::{self, Known, LossOptions, OldPolicy, Tokens};
use crate::metrics::Meter;
use crate::sample::TrainSample;
use tch::{Device, Kind, Tensor};
use whet_algorithm::{Bounds, Correction};

/// What is fixed for a batch before it is cut into micro-batches.
pub(crate) struct Batch<'a> {
    pub samples: &'a [TrainSample],
    /// The reduction's weight of each sample's tokens.
    pub weights: &'a [f64],
    /// The tokens that the objective's rule picks, by sample and token.
    pub picked: Option<&'a [Vec<bool>]>,
}

impl Batch<'_> {
    /// The gradient of the batch's loss with respect to every target's log-probability, `[N]` f64.
    pub fn token_gradient(
        &self,
        layout: &Layout,
        log_probs: &LogProbs,
        reference: Option<&[f64]>,
        options: &LossOptions,
        meter: &mut Meter,
    ) -> Result<Tensor, TrainError> {
        let (samples, targets) = (self.samples, &layout.targets);
        let current = to_list(&log_probs.targets)?;
        let list = |value: &dyn Fn(usize, &Target) -> f64| -> Vec<f64> {
            targets.iter().enumerate().map(|(n, t)| value(n, t)).collect()
        };
        let rollout = list(&|_, t| f64::from(samples[t.sample].rollout_logprobs[t.position]));
        let trainer = list(&|n, t| {
            samples[t.sample].old_logprobs.as_ref().map_or(current[n], |old| f64::from(old[t.position]))
        });
        let old = match options.old {
            OldPolicy::Trainer => &trainer,
            OldPolicy::Rollout => &rollout,
        };
        // Sequences are numbered anew in every micro-batch; a sample is never cut.
        let mut number = vec![-1i64; samples.len()];
        let mut sequences = 0;
        let sequence: Vec<i64> = targets
            .iter()
            .map(|t| {
                if number[t.sample] < 0 {
                    number[t.sample] = sequences;
                    sequences += 1;
                }
                number[t.sample]
            })
            .collect();
        let (correction, bounded) = corrections(options, &trainer, &rollout, &sequence, sequences as usize);

        let leaf = loss::tensor(&current, Kind::Double).set_requires_grad(true);
        let old_tensor = loss::tensor(old, Kind::Double);
        let advantage = list(&|_, t| f64::from(samples[t.sample].advantages[t.position]));
        let trained = Tensor::ones([targets.len() as i64], (Kind::Bool, Device::Cpu));
        let advantage = loss::tensor(&advantage, Kind::Double);
        let sequence = Tensor::from_slice(&sequence);
        let mut tokens = Tokens::new(&leaf, &old_tensor, &advantage, &trained, &sequence, sequences);

        if let Some(picked) = self.picked {
            let flat: Vec<bool> = targets.iter().map(|t| picked[t.sample][t.position]).collect();
            tokens.picked = Some(Tensor::from_slice(&flat));
        }
        let weight = loss::tensor(&list(&|_, t| self.weights[t.sample]), Kind::Double);
        let policy = loss::policy(options.objective, options.ratio, &tokens);
        let policy_loss = (policy.loss * loss::tensor(&correction, Kind::Double) * &weight).sum(Kind::Double);
        let penalty = match (options.kl, reference) {
            (Some(term), Some(reference)) => {
                let reference = loss::tensor(reference, Kind::Double);
                let kl = loss::divergence(term.estimator, &tokens.log_prob, &reference, &tokens.old);
                meter.sums.kl += kl.sum(Kind::Double).double_value(&[]);
                Some((kl * &weight).sum(Kind::Double) * term.coefficient)
            }
            _ => None,
        };
        let total = penalty.map_or_else(|| policy_loss.shallow_clone(), |penalty| &policy_loss + penalty);
        let grad = Tensor::f_run_backward(&[&total], &[&leaf], false, false)?.remove(0);

        let m = &mut meter.sums;
        m.computed += targets.len();
        m.loss += total.double_value(&[]);
        m.policy_loss += policy_loss.double_value(&[]);
        m.clip_fraction += policy.clipped.sum(Kind::Int64).int64_value(&[]) as f64;
        m.correction_fraction += bounded as f64;
        m.entropy += log_probs.entropy.sum(Kind::Double).double_value(&[]);
        for ratio in to_list(&policy.ratio)? {
            m.ratio_mean += ratio;
            m.ratio_min = m.ratio_min.min(ratio);
            m.ratio_max = m.ratio_max.max(ratio);
        }
        for n in 0..targets.len() {
            let mismatch = trainer[n] - rollout[n];
            m.mismatch_mean += mismatch.abs();
            m.mismatch_max = m.mismatch_max.max(mismatch.abs());
            m.mismatch_kl -= mismatch;
            m.correction_mean += correction[n];
        }
        Ok(grad)
    }
}

/// The samples that have to be computed for the loss's gradient, of those with a trained token.
///
/// Without an advantage a sample has no gradient, unless the loss has a term besides the advantage's. Where
/// that leaves none, the first group stays: its gradient is 0 as all others', and it tells how far the
/// trainer is from the sampler.
pub(crate) fn needed(samples: &[TrainSample], options: &LossOptions) -> Vec<usize> {
    let mut needed: Vec<usize> = (0..samples.len()).filter(|&s| samples[s].trained() > 0).collect();
    if options.kl.is_some() || !options.objective.vanishes_without_advantage() {
        return needed;
    }
    match needed.first() {
        Some(&first) if !needed.iter().any(|&s| samples[s].has_advantage()) => {
            needed.retain(|&s| samples[s].group == samples[first].group);
        }
        _ => needed.retain(|&s| samples[s].has_advantage()),
    }
    needed
}

/// Applies the objective's rule to a batch; `current` has the policy's log-probabilities by sample and token.
pub(crate) fn pick(samples: &[TrainSample], current: &[Vec<f32>], options: &LossOptions) -> Vec<Vec<bool>> {
    let trained = |s: usize| (0..samples[s].tokens.len()).filter(move |&t| samples[s].loss_mask[t]);
    let of = |s: usize, list: &[f32]| trained(s).map(|t| f64::from(list[t])).collect::<Vec<f64>>();
    let known = |s: usize| {
        let sample = &samples[s];
        let old = match options.old {
            OldPolicy::Trainer => sample.old_logprobs.as_deref().unwrap_or(&current[s]),
            OldPolicy::Rollout => &sample.rollout_logprobs,
        };
        Known { advantages: of(s, &sample.advantages), log_prob: of(s, &current[s]), old: of(s, old) }
    };
    let batch: Vec<Known> = (0..samples.len()).map(known).collect();
    let spread = |(s, flags): (usize, Vec<bool>)| {
        let mut all = vec![false; samples[s].tokens.len()];
        trained(s).zip(flags).for_each(|(t, flag)| all[t] = flag);
        all
    };
    options.objective.pick(&batch).into_iter().enumerate().map(spread).collect()
}

/// The correction's weight of every token, 1 without a correction, and how many a bound has changed.
fn corrections(
    options: &LossOptions,
    old: &[f64],
    rollout: &[f64],
    sequence: &[i64],
    sequences: usize,
) -> (Vec<f64>, usize) {
    let mut weights = vec![1.0; old.len()];
    let mut bounded = 0;
    let Some(correction) = options.correction else { return (weights, bounded) };
    let free = Correction { bounds: Bounds { low: None, high: None }, clamp_log: None, ..correction };
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); sequences];
    for (n, &s) in sequence.iter().enumerate() {
        members[s as usize].push(n);
    }
    for members in members {
        let pick = |list: &[f64]| members.iter().map(|&n| list[n]).collect::<Vec<f64>>();
        let (old, rollout, mask) = (pick(old), pick(rollout), vec![true; members.len()]);
        let found = correction.weights(&old, &rollout, &mask);
        bounded += found.iter().zip(free.weights(&old, &rollout, &mask)).filter(|(a, b)| *a != b).count();
        for (n, weight) in members.into_iter().zip(found) {
            weights[n] = weight;
        }
    }
    (weights, bounded)
}

pub(crate) fn to_list(values: &Tensor) -> Result<Vec<f64>, TrainError> {
    Ok(Vec::try_from(values.to_device(Device::Cpu).to_kind(Kind::Double))?)
}
