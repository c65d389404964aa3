//! The loss of a whole batch, and its gradient at every token of a part of it.

use crate::TrainError;
use crate::head::LogProbs;
use crate::layout::{Layout, Target};
use crate::loss::{self, LossOptions, OldPolicy, Tokens};
use crate::metrics::Meter;
use crate::plan::{self, Plan};
use crate::sample::TrainSample;
use tch::{Device, Kind, Tensor};

/// What is fixed for a batch before it is cut into micro-batches.
pub(crate) struct Batch<'a> {
    pub samples: &'a [TrainSample],
    /// The reduction's weight of each sample's tokens.
    pub weights: &'a [f64],
    /// What rules over the whole batch have decided, where the loss has such.
    pub plan: Option<&'a Plan>,
}

/// The gradient of the batch's loss at the targets of a part of it, `[N]` f64 each.
pub(crate) struct TokenGradient {
    /// With respect to their log-probabilities.
    pub log_prob: Tensor,
    /// With respect to the entropies of their distributions, if the loss has a term of them.
    pub entropy: Option<Tensor>,
}

impl Batch<'_> {
    /// The gradient of the batch's loss at every target of the layout.
    pub fn token_gradient(
        &self,
        layout: &Layout,
        log_probs: &LogProbs,
        reference: Option<&[f64]>,
        options: &LossOptions,
        meter: &mut Meter,
    ) -> Result<TokenGradient, TrainError> {
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
            OldPolicy::Current => &current,
        };
        // The numerator of the correction: the sampler itself cannot be corrected for.
        let corrected = if options.old == OldPolicy::Current { &current } else { &trainer };
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
        let leaf = loss::tensor(&current, Kind::Double).set_requires_grad(true);
        let old_tensor = loss::tensor(old, Kind::Double);
        let advantages = list(&|_, t| f64::from(samples[t.sample].advantages[t.position]));
        let trained = Tensor::ones([targets.len() as i64], (Kind::Bool, Device::Cpu));
        let advantage = loss::tensor(&advantages, Kind::Double);
        let number = Tensor::from_slice(&sequence);
        let mut tokens = Tokens::new(&leaf, &old_tensor, &advantage, &trained, &number, sequences);

        if let Some(picked) = self.plan.and_then(|plan| plan.picked.as_ref()) {
            let flat: Vec<bool> = targets.iter().map(|t| picked[t.sample][t.position]).collect();
            tokens.picked = Some(Tensor::from_slice(&flat));
        }
        let known = plan::Known {
            advantages,
            log_prob: current.clone(),
            old: old.clone(),
            trainer: corrected.clone(),
            rollout: rollout.clone(),
        };
        let judged = self.judged(options, targets, &known, &sequence);
        let weight = loss::tensor(&list(&|_, t| self.weights[t.sample]), Kind::Double);
        let factor: Vec<f64> = judged.iter().map(plan::Judged::factor).collect();
        let objective = self.plan.map_or(options.objective, |plan| plan.objective);
        let policy = loss::policy(objective, options.ratio, &tokens);
        // A token that is left out may have a loss that is not finite; 0 times it would not be 0.
        let used = Tensor::from_slice(&judged.iter().map(plan::Judged::used).collect::<Vec<bool>>());
        let token_loss = policy.loss.where_self(&used, &policy.loss.zeros_like());
        let policy_loss = (token_loss * loss::tensor(&factor, Kind::Double) * &weight).sum(Kind::Double);
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
        let log_prob = Tensor::f_run_backward(&[&total], &[&leaf], false, false)?.remove(0);
        let bonus = options.entropy.bonus;
        let entropy = (bonus > 0.0).then(|| &weight * -bonus);
        let entropies = to_list(&log_probs.entropy)?;

        let m = &mut meter.sums;
        m.computed += targets.len();
        m.loss += total.double_value(&[]);
        for (n, t) in targets.iter().enumerate() {
            m.loss -= bonus * self.weights[t.sample] * entropies[n];
        }
        m.policy_loss += policy_loss.double_value(&[]);
        m.clip_fraction += policy.clipped.sum(Kind::Int64).int64_value(&[]) as f64;
        m.correction_fraction += judged.iter().filter(|j| j.bounded).count() as f64;
        m.rejected += judged.iter().filter(|j| !j.kept).count() as f64;
        m.entropy += entropies.iter().sum::<f64>();
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
            m.correction_mean += judged[n].weight;
        }
        Ok(TokenGradient { log_prob, entropy })
    }

    /// What is decided about every target, by the batch's plan or, without one, sequence by sequence.
    fn judged(
        &self,
        options: &LossOptions,
        targets: &[Target],
        known: &plan::Known,
        sequence: &[i64],
    ) -> Vec<plan::Judged> {
        if let Some(plan) = self.plan {
            return targets.iter().map(|t| plan.judged[t.sample][t.position]).collect();
        }
        let mut members: Vec<Vec<usize>> = Vec::new();
        for (n, &s) in sequence.iter().enumerate() {
            members.resize(members.len().max(s as usize + 1), Vec::new());
            members[s as usize].push(n);
        }
        let mut judged = vec![plan::Judged::default(); targets.len()];
        for members in members {
            let found = plan::judge(options, &known.part(&members));
            members.into_iter().zip(found).for_each(|(n, token)| judged[n] = token);
        }
        judged
    }
}

/// The samples that have to be computed for the loss's gradient, of those with a trained token.
///
/// Without an advantage a sample has no gradient, unless the loss has a term besides the advantage's. Where
/// that leaves none, the first group stays: its gradient is 0 as all others', and it tells how far the
/// trainer is from the sampler.
pub(crate) fn needed(samples: &[TrainSample], options: &LossOptions) -> Vec<usize> {
    let mut needed: Vec<usize> = (0..samples.len()).filter(|&s| samples[s].trained() > 0).collect();
    let more = options.kl.is_some() || options.entropy.bonus > 0.0;
    if more || !options.objective.vanishes_without_advantage() {
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

pub(crate) fn to_list(values: &Tensor) -> Result<Vec<f64>, TrainError> {
    Ok(Vec::try_from(values.to_device(Device::Cpu).to_kind(Kind::Double))?)
}
