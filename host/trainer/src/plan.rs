//! What is decided about the tokens of a batch before any gradient is formed.
//!
//! Some rules read one sequence (a bounded weight, a rejection), others the whole batch (a share of
//! its tokens, bounds from its second moment, a mean weight). The latter make a pass over the batch of
//! their own, so that a batch cut into micro-batches is treated as the whole it is.

use crate::loss::{self, LossOptions, Objective, OldPolicy, Reject};
use crate::sample::TrainSample;
use whet_algorithm::{Bounds, Correction, Level, correction, selection};

/// What rules over a whole batch have decided, by sample and token.
pub(crate) struct Plan {
    /// The objective, its bounds known.
    pub objective: Objective,
    /// The tokens that the objective's rule picks.
    pub picked: Option<Vec<Vec<bool>>>,
    pub judged: Vec<Vec<Judged>>,
}

/// What was decided about a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Judged {
    /// The correction's weight.
    pub weight: f64,
    /// Whether a bound has changed that weight.
    pub bounded: bool,
    /// Whether every rule of rejection keeps it.
    pub kept: bool,
    /// Whether its entropy is high enough to be trained.
    pub top: bool,
}

impl Default for Judged {
    fn default() -> Self {
        Judged { weight: 1.0, bounded: false, kept: true, top: true }
    }
}

impl Judged {
    /// Whether it has a policy-gradient term.
    pub fn used(&self) -> bool {
        self.kept && self.top && self.weight != 0.0
    }

    /// The factor of that term.
    pub fn factor(&self) -> f64 {
        if self.used() { self.weight } else { 0.0 }
    }
}

/// What rules read of one sequence: its trained tokens, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub advantages: Vec<f64>,
    /// Log-probabilities under the policy as it is.
    pub log_prob: Vec<f64>,
    /// Under the old policy, whichever the loss takes for it.
    pub old: Vec<f64>,
    /// Under the policy that the correction leads to.
    pub trainer: Vec<f64>,
    /// Under the sampler.
    pub rollout: Vec<f64>,
}

/// What the policy says of every trained token of a sample, as it is before the update.
#[derive(Clone, Debug, Default)]
pub(crate) struct Now {
    pub log_prob: Vec<f64>,
    pub entropy: Vec<f64>,
}

/// Whether the loss has a rule over the whole batch.
pub(crate) fn looks_ahead(options: &LossOptions) -> bool {
    options.objective.picks()
        || matches!(options.objective, Objective::SecondMoment { .. })
        || options.normalise_correction
        || options.entropy.top_share < 1.0
        || options.rejections.iter().any(|r| matches!(r, Reject::SecondMoment(_)))
}

/// Applies all rules to a batch; `now` has the trained tokens of every sample, in order.
///
/// Rules read samples in the order of their ids: where answers begin alike, tokens tie exactly, and which of them a
/// rule picks must not depend on how a batch is ordered.
pub(crate) fn plan(samples: &[TrainSample], now: &[Now], options: &LossOptions) -> Plan {
    let mut order: Vec<usize> = (0..samples.len()).collect();
    order.sort_by(|&a, &b| samples[a].id.cmp(&samples[b].id));
    let sorted: Vec<&TrainSample> = order.iter().map(|&s| &samples[s]).collect();
    let now: Vec<&Now> = order.iter().map(|&s| &now[s]).collect();
    let Plan { objective, picked, judged } = in_order(&sorted, &now, options);
    Plan { objective, picked: picked.map(|rows| in_place(&order, rows)), judged: in_place(&order, judged) }
}

/// Rows that stand in `order` back where they belong.
fn in_place<T: Clone + Default>(order: &[usize], rows: Vec<T>) -> Vec<T> {
    let mut all = vec![T::default(); order.len()];
    order.iter().zip(rows).for_each(|(&place, row)| all[place] = row);
    all
}

fn in_order(samples: &[&TrainSample], now: &[&Now], options: &LossOptions) -> Plan {
    let known: Vec<Known> = samples.iter().zip(now).map(|(s, now)| Known::of(s, now, options)).collect();
    let mut judged: Vec<Vec<Judged>> = known.iter().map(|k| judge(options, k)).collect();
    if let Some(correction) = options.correction.filter(|_| options.normalise_correction) {
        normalise(&mut judged, correction.level);
    }
    let join =
        |list: fn(&Known) -> &Vec<f64>| known.iter().flat_map(|k| list(k).clone()).collect::<Vec<f64>>();
    let all = vec![true; known.iter().map(|k| k.log_prob.len()).sum()];
    for rule in &options.rejections {
        if let Reject::SecondMoment(threshold) = rule {
            let (trainer, rollout) = (join(|k| &k.trainer), join(|k| &k.rollout));
            let log_ratio: Vec<f64> = trainer.iter().zip(rollout).map(|(p, q)| p - q).collect();
            let kept = selection::second_moment_mask(&log_ratio, &all, *threshold);
            judged.iter_mut().flatten().zip(kept).for_each(|(token, kept)| token.kept &= kept);
        }
    }
    if options.entropy.top_share < 1.0 {
        let entropies: Vec<f64> = now.iter().flat_map(|n| n.entropy.clone()).collect();
        let top = selection::top_share(&entropies, &all, options.entropy.top_share);
        judged.iter_mut().flatten().zip(top).for_each(|(token, top)| token.top = top);
    }
    let objective = match options.objective {
        Objective::SecondMoment { .. } => {
            let log_ratio: Vec<f64> =
                known.iter().flat_map(|k| k.log_prob.iter().zip(&k.old).map(|(p, q)| p - q)).collect();
            options.objective.bounded(&join(|k| &k.advantages), &log_ratio)
        }
        objective => objective,
    };
    let picked = options.objective.picks().then(|| {
        let batch: Vec<loss::Known> = known
            .into_iter()
            .map(|k| loss::Known { advantages: k.advantages, log_prob: k.log_prob, old: k.old })
            .collect();
        spread(samples, options.objective.pick(&batch))
    });
    Plan { objective, picked, judged: spread(samples, judged) }
}

/// What the rules over one sequence say about its tokens.
pub(crate) fn judge(options: &LossOptions, known: &Known) -> Vec<Judged> {
    let mask = vec![true; known.log_prob.len()];
    let mut judged = vec![Judged::default(); mask.len()];
    if let Some(correction) = options.correction {
        let free = Correction { bounds: Bounds { low: None, high: None }, clamp_log: None, ..correction };
        let weights = correction.weights(&known.trainer, &known.rollout, &mask);
        let unbounded = free.weights(&known.trainer, &known.rollout, &mask);
        for (token, (weight, free)) in judged.iter_mut().zip(weights.into_iter().zip(unbounded)) {
            (token.weight, token.bounded) = (weight, weight != free);
        }
    }
    for rule in &options.rejections {
        let kept: Vec<bool> = match *rule {
            Reject::Mismatch(rejection) => rejection.within(&known.trainer, &known.rollout, &mask),
            Reject::Veto(below) => {
                vec![!correction::vetoed(&known.trainer, &known.rollout, &mask, below); mask.len()]
            }
            Reject::OffPolicy { delta, from_rollout } => {
                let from = if from_rollout { &known.rollout } else { &known.old };
                let out = selection::off_policy(&known.advantages, from, &known.log_prob, &mask, delta);
                out.into_iter().map(|out| !out).collect()
            }
            // A rule over the batch.
            Reject::SecondMoment(_) => continue,
        };
        judged.iter_mut().zip(kept).for_each(|(token, kept)| token.kept &= kept);
    }
    judged
}

/// Divides all weights by their mean over the batch.
fn normalise(judged: &mut [Vec<Judged>], level: Level) {
    let mut weights: Vec<Vec<f64>> =
        judged.iter().map(|row| row.iter().map(|j| j.weight).collect()).collect();
    let masks: Vec<Vec<bool>> = judged.iter().map(|row| vec![true; row.len()]).collect();
    correction::normalise(&mut weights, &masks, level, false);
    for (token, weight) in judged.iter_mut().flatten().zip(weights.into_iter().flatten()) {
        token.weight = weight;
    }
}

impl Known {
    /// Of the tokens at `places` alone.
    pub fn part(&self, places: &[usize]) -> Known {
        let pick = |list: &[f64]| places.iter().map(|&n| list[n]).collect();
        Known {
            advantages: pick(&self.advantages),
            log_prob: pick(&self.log_prob),
            old: pick(&self.old),
            trainer: pick(&self.trainer),
            rollout: pick(&self.rollout),
        }
    }

    fn of(sample: &TrainSample, now: &Now, options: &LossOptions) -> Known {
        let trained = |list: &[f32]| -> Vec<f64> {
            let tokens = (0..sample.tokens.len()).filter(|&t| sample.loss_mask[t]);
            tokens.map(|t| f64::from(list[t])).collect()
        };
        let rollout = trained(&sample.rollout_logprobs);
        let before = sample.old_logprobs.as_deref().map_or_else(|| now.log_prob.clone(), trained);
        let (old, trainer) = match options.old {
            OldPolicy::Trainer => (before.clone(), before),
            OldPolicy::Rollout => (rollout.clone(), before),
            OldPolicy::Current => (now.log_prob.clone(), now.log_prob.clone()),
        };
        Known {
            advantages: trained(&sample.advantages),
            log_prob: now.log_prob.clone(),
            old,
            trainer,
            rollout,
        }
    }
}

/// Values of trained tokens at the places of all tokens.
fn spread<T: Clone + Default>(samples: &[&TrainSample], values: Vec<Vec<T>>) -> Vec<Vec<T>> {
    let of = |(sample, values): (&&TrainSample, Vec<T>)| {
        let mut all = vec![T::default(); sample.tokens.len()];
        let trained = (0..sample.tokens.len()).filter(|&t| sample.loss_mask[t]);
        trained.zip(values).for_each(|(t, value)| all[t] = value);
        all
    };
    samples.iter().zip(values).map(of).collect()
}
