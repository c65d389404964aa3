//! The recipe's algorithm in the trainer's words: the loss.

use whet_algorithm::correction::{Aggregate, Metric, Rejection};
use whet_algorithm::selection::Budget;
use whet_algorithm::{Bounds, Correction, Kl, KlEstimator, KlGradient, Level, Outside, Reduction};
use whet_recipe::{self as recipe, Recipe};
use whet_trainer::loss::{Entropy, Region, Reject, Surrogate};
use whet_trainer::{KlTerm, LossOptions, Objective, OldPolicy, Ratio, RatioLevel};

/// The loss.
pub fn loss(recipe: &Recipe) -> LossOptions {
    let algorithm = &recipe.algorithm;
    if recipe.teacher_alone() {
        return beside_teacher(recipe);
    }
    let (correction, normalise_correction) = correction(algorithm.correction);
    let in_loss = algorithm.kl.placement == recipe::Placement::Loss;
    LossOptions {
        old: old(algorithm.old),
        ratio: Ratio {
            level: match algorithm.ratio {
                recipe::Ratio::Token => RatioLevel::Token,
                recipe::Ratio::Sequence => RatioLevel::Sequence,
                recipe::Ratio::SequenceToken => RatioLevel::SequenceToken,
            },
            clamp_log: (algorithm.ratio_clamp > 0.0).then_some(algorithm.ratio_clamp),
        },
        objective: objective(&algorithm.loss),
        kl: (in_loss && algorithm.kl.coefficient > 0.0)
            .then(|| KlTerm { estimator: kl(&algorithm.kl), coefficient: algorithm.kl.coefficient }),
        entropy: Entropy { bonus: algorithm.entropy.bonus, top_share: algorithm.entropy.top_share },
        correction,
        normalise_correction,
        rejections: rejections(algorithm),
        reduction: reduction(algorithm.reduction, recipe.rollout.max_tokens),
        temperature: temperature(recipe),
    }
}

/// What is left of the loss where the divergence from a teacher stands in place of the policy gradient: penalties,
/// and how tokens become a batch. No token has an advantage, and this objective is 0 without one.
fn beside_teacher(recipe: &Recipe) -> LossOptions {
    let algorithm = &recipe.algorithm;
    LossOptions {
        objective: Objective::Importance,
        kl: (algorithm.kl.coefficient > 0.0)
            .then(|| KlTerm { estimator: kl(&algorithm.kl), coefficient: algorithm.kl.coefficient }),
        entropy: Entropy { bonus: algorithm.entropy.bonus, top_share: 1.0 },
        correction: None,
        reduction: reduction(algorithm.reduction, recipe.rollout.max_tokens),
        temperature: temperature(recipe),
        ..LossOptions::default()
    }
}

/// The temperature of the distribution that log-probabilities speak of.
pub fn temperature(recipe: &Recipe) -> f64 {
    // Greedy rollouts have no tempered distribution; the model's own is the nearest.
    if recipe.rollout.temperature > 0.0 { recipe.rollout.temperature } else { 1.0 }
}

/// The estimator of the divergence from the reference.
pub fn kl(kl: &recipe::Kl) -> KlEstimator {
    let estimator = match kl.estimator {
        recipe::KlEstimator::K1 => KlEstimator::plain(Kl::K1),
        recipe::KlEstimator::Abs => KlEstimator::plain(Kl::Abs),
        recipe::KlEstimator::K2 => KlEstimator::plain(Kl::K2),
        recipe::KlEstimator::K3 => KlEstimator::bounded(Kl::K3),
        recipe::KlEstimator::K3Free => KlEstimator::plain(Kl::K3),
        recipe::KlEstimator::LowVar => KlEstimator::bounded_value(Kl::K3, 10.0),
    };
    let gradient = match kl.gradient {
        recipe::KlGradient::Direct => KlGradient::Direct,
        recipe::KlGradient::StraightThrough => KlGradient::StraightThrough,
        recipe::KlGradient::Unbiased => KlGradient::Reweighted,
        recipe::KlGradient::Score => KlGradient::Score,
    };
    KlEstimator { gradient, ..estimator }
}

fn old(old: recipe::Old) -> OldPolicy {
    match old {
        recipe::Old::Trainer => OldPolicy::Trainer,
        recipe::Old::Rollout => OldPolicy::Rollout,
        recipe::Old::Current => OldPolicy::Current,
    }
}

fn reduction(reduction: recipe::Reduction, max_tokens: usize) -> Reduction {
    match reduction {
        recipe::Reduction::TokenMean => Reduction::TokenMean,
        recipe::Reduction::TokenSum => Reduction::TokenSum,
        recipe::Reduction::SeqMeanTokenMean => Reduction::SequenceMeanTokenMean,
        recipe::Reduction::SeqMeanTokenSum => Reduction::SequenceMeanTokenSum,
        recipe::Reduction::SeqMeanTokenSumNorm { length } => {
            Reduction::SequenceMeanTokenSumNorm { length: length.unwrap_or(max_tokens as f64) }
        }
    }
}

/// The policy-gradient term.
fn objective(loss: &recipe::Loss) -> Objective {
    use recipe::Loss as L;
    let pair = |[a, b]: [f64; 2]| (a, b);
    match *loss {
        L::Clip { low, high, dual, cap } => Objective::Clip { low, high, dual, cap },
        L::Reinforce => Objective::Reinforce,
        L::Importance => Objective::Importance,
        L::Cispo { low, high, by_sign } => Objective::Cispo { low, high, by_sign },
        L::Sapo { positive, negative } => Objective::Sapo { positive, negative },
        L::Gmpo { low, high } => Objective::Gmpo { low, high },
        L::M2po { budget, least_low, least_high } => {
            Objective::SecondMoment { budget, least: (least_low, least_high) }
        }
        L::Dppo { region, low, high, surrogate, cap, drift } => Objective::Dppo {
            region: match region {
                recipe::Region::TotalVariation => Region::TotalVariation { low, high },
                recipe::Region::BinaryKl => Region::BinaryKl { low, high },
                recipe::Region::Absolute => Region::Absolute { bound: high },
            },
            surrogate: match surrogate {
                recipe::Surrogate::Detached => Surrogate::Detached { cap },
                recipe::Surrogate::Ratio => Surrogate::Ratio,
            },
            drift,
        },
        L::ClipCov { low, high, covariance, share } => {
            Objective::ClipCov { low, high, covariance: pair(covariance), share }
        }
        L::KlCov { coefficient, share } => Objective::KlCov { coefficient, share },
        L::Cpgd { low, high } => Objective::Cpgd { low, high },
        L::Drpo { eps } => Objective::Spo { eps, by_probability: true },
        L::Spo { eps } => Objective::Spo { eps, by_probability: false },
        L::Cppo { delta, least_weight, rate } => {
            Objective::Within { budget: Budget { delta, least_weight, rate } }
        }
        L::Dro { beta } => Objective::Dro { beta },
        L::Vespo { detached, positive, negative } => {
            Objective::Vespo { detached, positive: pair(positive), negative: pair(negative) }
        }
    }
}

/// The importance weight, and whether weights are divided by their mean.
fn correction(correction: recipe::Correction) -> (Option<Correction>, bool) {
    use recipe::Correction as C;
    let weight = |level, low, high, outside| Correction {
        level,
        bounds: Bounds { low, high },
        outside,
        // As verl and slime bound it; a weight of e^20 is beyond every bound that makes sense.
        clamp_log: Some(20.0),
    };
    match correction {
        C::None => (None, false),
        C::Tis { cap, level, normalise } => {
            (Some(weight(self::level(level), None, Some(cap), Outside::Bound)), normalise)
        }
        C::Clamp { low, high, level, normalise } => {
            (Some(weight(self::level(level), Some(low), Some(high), Outside::Bound)), normalise)
        }
        C::Icepop { low, high } => (Some(weight(Level::Token, Some(low), Some(high), Outside::Zero)), false),
        C::Mis { low, high, level, normalise } => {
            (Some(weight(self::level(level), Some(low), Some(high), Outside::Zero)), normalise)
        }
        C::SeqMaskTis { .. } => (Some(weight(Level::Token, None, None, Outside::Bound)), false),
    }
}

fn level(level: recipe::WeightLevel) -> Level {
    match level {
        recipe::WeightLevel::Token => Level::Token,
        recipe::WeightLevel::Sequence => Level::Sequence,
        recipe::WeightLevel::Geometric => Level::Geometric,
    }
}

/// The rules by which tokens are left out, that of a sequence mask first.
fn rejections(algorithm: &recipe::Algorithm) -> Vec<Reject> {
    let mask = match algorithm.correction {
        recipe::Correction::SeqMaskTis { low, high } => Some(Reject::Mismatch(Rejection {
            metric: Metric::Ratio,
            over: Some(Aggregate::Mean),
            bounds: Bounds { low: Some(low), high: Some(high) },
        })),
        _ => None,
    };
    mask.into_iter().chain(algorithm.rejection.iter().map(rejection)).collect()
}

fn rejection(rule: &recipe::Rejection) -> Reject {
    use recipe::Measure as M;
    match *rule {
        recipe::Rejection::Mismatch { measure, over, low, high } => {
            let of_sampler = |kl| Metric::Divergence {
                estimator: KlEstimator { clamp_ratio: Some(20.0), ..KlEstimator::plain(kl) },
                of_sampler: true,
            };
            let (metric, bounds) = match measure {
                M::Ratio => (Metric::Ratio, Bounds { low, high: Some(high) }),
                // K1 is a log-ratio, and its bounds are ratios.
                M::K1 => (of_sampler(Kl::K1), Bounds { low: low.map(f64::ln), high: Some(high.ln()) }),
                M::K2 => (of_sampler(Kl::K2), Bounds { low, high: Some(high) }),
                M::K3 => (of_sampler(Kl::K3), Bounds { low, high: Some(high) }),
                M::Binary => (Metric::Binary, Bounds { low, high: Some(high) }),
            };
            let over = match over {
                recipe::Over::Token => None,
                recipe::Over::SequenceMean => Some(Aggregate::Mean),
                recipe::Over::SequenceSum => Some(Aggregate::Sum),
                recipe::Over::SequenceMax => Some(Aggregate::Max),
            };
            Reject::Mismatch(Rejection { metric, over, bounds })
        }
        recipe::Rejection::Veto { below } => Reject::Veto(below),
        recipe::Rejection::Opsm { delta, against } => {
            Reject::OffPolicy { delta, from_rollout: against == recipe::Against::Rollout }
        }
        recipe::Rejection::SecondMoment { threshold } => Reject::SecondMoment(threshold),
    }
}
