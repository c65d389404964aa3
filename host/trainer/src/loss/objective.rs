//! The policy-gradient terms of the field. `r` is the ratio `p / p_old`, `A` the advantage, `lp` the
//! log-probability, and `sg` what no gradient passes through.

use super::{LossError, Ratio, Tokens, positive, ratio};
use tch::Tensor;
use whet_algorithm::selection::{self, Budget};

/// A policy-gradient term.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// `max(-A r, -A clip(r, 1 - low, 1 + high))` (PPO; `high > low` is DAPO's clip-higher; with a ratio over
    /// sequences GSPO).
    Clip {
        /// `low`.
        low: f64,
        /// `high`.
        high: f64,
        /// Dual clip: where `A < 0`, at most `-dual A` (arXiv 1912.09729; verl's default is 3, others have none).
        dual: Option<f64>,
        /// Bounds `r` in the unclipped branch only (TRL `delta`, INTELLECT-2).
        cap: Option<f64>,
    },
    /// `-A lp`: REINFORCE, no ratio (GPG, RLOO).
    Reinforce,
    /// `-A r`, never clipped.
    Importance,
    /// `-sg(clip(r, low, high)) A lp` with absolute bounds (CISPO, arXiv 2506.13585). A peer's `1 ± eps` becomes
    /// `low = 1 - eps`, `high = 1 + eps` (verl, slime, AReaL, NeMo RL); TRL's `epsilon_high` is `high` itself.
    Cispo {
        /// Least weight.
        low: f64,
        /// Greatest weight.
        high: f64,
        /// `high` holds where `A ≥ 0` and `low` where `A < 0` alone (Relax).
        by_sign: bool,
    },
    /// `-A (4/τ) σ(τ (r - 1))` with `τ = positive` where `A > 0`, else `negative` (SAPO, arXiv 2511.20347).
    Sapo {
        /// Temperature for advantages above 0.
        positive: f64,
        /// Temperature for the others.
        negative: f64,
    },
    /// `-Ā exp(mean_t d*)` at every token of a sequence, `d* = sgn(A) min(sgn(A) d, sgn(A) clip(d, -low, high))`
    /// with the log-ratio `d` and the sequence's mean advantage `Ā` (GMPO, arXiv 2507.20673).
    Gmpo {
        /// Bound below, on the log-ratio.
        low: f64,
        /// Bound above, on the log-ratio.
        high: f64,
    },
    /// [`Objective::Clip`] with the bounds that keep the second moment of the batch's harmful tokens within `budget`
    /// (M2PO as Relax has it, arXiv 2510.01161; see `whet_algorithm::selection::second_moment`). A batch
    /// has to be seen before its bounds are known: [`Objective::bounded`].
    SecondMoment {
        /// Mean squared log-ratio of harmful tokens.
        budget: f64,
        /// The bounds are at least these, below and above.
        least: (f64, f64),
    },
    /// The surrogate where the token is in its trust region, or comes back to it, else 0; plus
    /// `drift (log r)²` everywhere (DPPO, arXiv 2602.04879).
    Dppo {
        /// The region.
        region: Region,
        /// What is summed inside.
        surrogate: Surrogate,
        /// Coefficient of the squared log-ratio; 0 in verl, 1e-3 in prime-rl.
        drift: f64,
    },
    /// `-A min(lp, lp_old + log(1 + high))` where `A > 0`, else `-A max(lp, lp_old + log(1 - low))` (CPGD, arXiv
    /// 2505.12504).
    Cpgd {
        /// Bound below.
        low: f64,
        /// Bound above.
        high: f64,
    },
    /// `-(A lp - β/2 (lp - lp_old)²)` (DRO, arXiv 2405.19107).
    Dro {
        /// `β`.
        beta: f64,
    },
    /// `-A r + |A| μ (r - 1)² / (2 eps)` with `μ = 1` (SPO, arXiv 2401.16025) or `μ = p_old` (DRPO).
    Spo {
        /// `eps`.
        eps: f64,
        /// Whether `μ` is the old probability.
        by_probability: bool,
    },
    /// `-φ A lp` with `φ = exp(λ + k log w - λ w)` and `w` the product of a sequence's ratios (VESPO, TRL).
    Vespo {
        /// Whether no gradient passes through `φ`, as the paper has it.
        detached: bool,
        /// `(k, λ)` where `A ≥ 0`.
        positive: (f64, f64),
        /// `(k, λ)` where `A < 0`.
        negative: (f64, f64),
    },
    /// `-A r`, plus `coefficient |lp - lp_old|` at picked tokens (KL-Cov, arXiv 2505.22617).
    KlCov {
        /// The coefficient.
        coefficient: f64,
        /// Share of the batch's tokens that is picked, those of largest covariance.
        share: f64,
    },
    /// [`Objective::Clip`] without dual clip, and nothing at picked tokens (Clip-Cov, arXiv 2505.22617).
    ClipCov {
        /// `low`.
        low: f64,
        /// `high`.
        high: f64,
        /// Candidates have a covariance strictly between these.
        covariance: (f64, f64),
        /// Share of the batch's tokens that is picked.
        share: f64,
    },
    /// `-A r` at picked tokens or where the ratio comes back to 1, else nothing (CPPO). Picked are the tokens within
    /// their budget of change, which UniRL lets masked tokens spend too; in training they do not.
    Within {
        /// The budget along a sequence.
        budget: Budget,
    },
}

/// Where a token is trusted, by its probability `p` and `μ` under the old policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Region {
    /// `p - μ ≤ high` where `A > 0`, else `p - μ ≥ -low`.
    TotalVariation {
        /// Bound where the probability is to fall.
        low: f64,
        /// Bound where it is to rise.
        high: f64,
    },
    /// The divergence of the two-outcome distributions at most `high` where `A > 0`, else `low`; or moving back.
    BinaryKl {
        /// Bound where the probability is to fall.
        low: f64,
        /// Bound where it is to rise.
        high: f64,
    },
    /// `|p - μ| ≤ bound`, whatever the sign.
    Absolute {
        /// The bound.
        bound: f64,
    },
}

/// What DPPO sums inside its region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Surrogate {
    /// `-A sg(min(r, cap)) lp` (verl).
    Detached {
        /// Greatest weight.
        cap: f64,
    },
    /// `-A r` (prime-rl).
    Ratio,
}

impl Objective {
    /// PPO's clip with equal bounds.
    pub fn ppo(clip: f64) -> Self {
        Objective::Clip { low: clip, high: clip, dual: None, cap: None }
    }

    /// Refuses numbers out of range.
    pub(super) fn check(&self) -> Result<(), LossError> {
        let bounds = |low: f64, high: f64| {
            if !(0.0..=1.0).contains(&low) {
                return Err(LossError::Range { option: "clip-low", value: low, range: "between 0 and 1" });
            }
            if !(high >= 0.0 && high.is_finite()) {
                return Err(LossError::Range { option: "clip-high", value: high, range: "0 or more" });
            }
            Ok(())
        };
        match *self {
            Objective::Clip { low, high, dual, cap } => {
                bounds(low, high)?;
                if let Some(dual) = dual
                    && dual <= 1.0
                {
                    return Err(LossError::Range { option: "dual-clip", value: dual, range: "above 1" });
                }
                cap.map_or(Ok(()), |cap| positive("ratio-cap", cap))
            }
            Objective::ClipCov { low, high, .. } | Objective::Cpgd { low, high } => bounds(low, high),
            Objective::Cispo { low, high, .. } => {
                if low < 0.0 || !(low..).contains(&high) {
                    let range = "at least the lower bound, which is at least 0";
                    return Err(LossError::Range { option: "cispo upper bound", value: high, range });
                }
                Ok(())
            }
            Objective::Sapo { positive: above, negative } => {
                positive("sapo positive temperature", above)?;
                positive("sapo negative temperature", negative)
            }
            Objective::Spo { eps, .. } => positive("spo eps", eps),
            Objective::Dro { beta } => positive("dro beta", beta),
            Objective::SecondMoment { budget, .. } => positive("m2po budget", budget),
            _ => Ok(()),
        }
    }

    /// Whether a sequence whose advantages are all 0 has neither loss nor gradient, whatever its ratio.
    pub fn vanishes_without_advantage(&self) -> bool {
        match *self {
            Objective::Clip { .. }
            | Objective::SecondMoment { .. }
            | Objective::Reinforce
            | Objective::Importance
            | Objective::Cispo { .. }
            | Objective::Sapo { .. }
            | Objective::Gmpo { .. }
            | Objective::Cpgd { .. }
            | Objective::Spo { .. }
            | Objective::Vespo { .. }
            | Objective::ClipCov { .. }
            | Objective::Within { .. } => true,
            Objective::Dppo { drift, .. } => drift == 0.0,
            Objective::Dro { .. } | Objective::KlCov { .. } => false,
        }
    }

    /// Whether the loss of a token depends on which tokens of the whole batch are picked.
    pub fn picks(&self) -> bool {
        matches!(self, Objective::KlCov { .. } | Objective::ClipCov { .. } | Objective::Within { .. })
    }

    /// The objective for one batch, whose trained tokens have these advantages and log-ratios.
    pub fn bounded(self, advantages: &[f64], log_ratio: &[f64]) -> Self {
        let Objective::SecondMoment { budget, least } = self else { return self };
        let found = selection::second_moment(advantages, log_ratio, budget, least);
        Objective::Clip { low: found.low, high: found.high, dual: None, cap: None }
    }

    /// The tokens of a whole batch that are picked, by sequence; none where nothing is.
    pub fn pick(&self, batch: &[Known]) -> Vec<Vec<bool>> {
        let lengths: Vec<usize> = batch.iter().map(|s| s.log_prob.len()).collect();
        let join =
            |list: fn(&Known) -> &Vec<f64>| batch.iter().flat_map(|s| list(s).clone()).collect::<Vec<f64>>();
        let (a, lp, old) = (join(|s| &s.advantages), join(|s| &s.log_prob), join(|s| &s.old));
        let all = vec![true; lp.len()];
        let flat = match *self {
            Objective::KlCov { share, .. } => {
                selection::kl_cov(&selection::covariance(&a, &lp, &all), &all, share)
            }
            Objective::ClipCov { low, high, covariance, share } => {
                let beyond = |t: usize| {
                    let r = (lp[t] - old[t]).exp();
                    (a[t] > 0.0 && r > 1.0 + high) || (a[t] < 0.0 && r < 1.0 - low)
                };
                let clipped: Vec<bool> = (0..lp.len()).map(beyond).collect();
                selection::clip_cov(&selection::covariance(&a, &lp, &all), &all, &clipped, covariance, share)
            }
            Objective::Within { budget } => {
                batch.iter().flat_map(|s| budget.within(&s.log_prob, &s.old)).collect()
            }
            _ => vec![false; lp.len()],
        };
        let mut rest = flat.into_iter();
        lengths.into_iter().map(|n| rest.by_ref().take(n).collect()).collect()
    }
}

/// What a rule over the batch reads of one sequence: its trained tokens, in order.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Advantages.
    pub advantages: Vec<f64>,
    /// Log-probabilities under the policy.
    pub log_prob: Vec<f64>,
    /// Log-probabilities under the old policy.
    pub old: Vec<f64>,
}

/// The policy's loss, per token.
#[derive(Debug)]
pub struct PolicyLoss {
    /// Loss of each token, with its graph.
    pub loss: Tensor,
    /// The ratio, without graph.
    pub ratio: Tensor,
    /// Where a bound decided the loss, boolean.
    pub clipped: Tensor,
}

/// The objective of every token.
pub fn policy(objective: Objective, how: Ratio, tokens: &Tokens) -> PolicyLoss {
    let r = ratio(how, tokens);
    let (a, lp) = (&tokens.advantage, &tokens.log_prob);
    let log_ratio = || lp - &tokens.old;
    let never = || r.detach().isnan();
    let (loss, clipped) = match objective {
        Objective::Clip { low, high, dual, cap } => clip(&r, a, [low, high], dual, cap),
        // Without its batch there are no harmful tokens beyond the budget, and nothing is clipped.
        Objective::SecondMoment { .. } => clip(&r, a, [1.0, f64::INFINITY], None, None),
        Objective::ClipCov { low, high, .. } => {
            let (loss, clipped) = clip(&r, a, [low, high], None, None);
            (dropped(&loss, &picked(tokens)), clipped.logical_or(&picked(tokens)))
        }
        Objective::Reinforce => (-(a * lp), never()),
        Objective::Importance => (-(a * &r), never()),
        Objective::Cispo { low, high, by_sign } => {
            let free = r.detach();
            let weight = if by_sign {
                free.clamp_max(high).where_self(&a.ge(0.0), &free.clamp_min(low))
            } else {
                free.clamp(low, high)
            };
            (-(&weight * a * lp), weight.ne_tensor(&free))
        }
        Objective::Sapo { positive, negative } => {
            let tau = chosen(&a.gt(0.0), positive, negative, &r);
            (-(a * ((&r - 1.0) * &tau).sigmoid() * 4.0 / tau), never())
        }
        Objective::Gmpo { low, high } => {
            let sign = a.sign();
            let d = log_ratio();
            let bound = d.clamp(-low, high);
            let least = (&sign * &d).minimum(&(&sign * &bound)) * &sign;
            let clipped = least.detach().ne_tensor(&d.detach());
            (-(tokens.means(a) * tokens.means(&least).exp()), clipped)
        }
        Objective::Dppo { region, surrogate, drift } => {
            let outside = outside(region, &r, tokens);
            let inside = match surrogate {
                Surrogate::Detached { cap } => -(a * r.detach().clamp_max(cap) * lp),
                Surrogate::Ratio => -(a * &r),
            };
            let kept = dropped(&inside, &outside);
            (if drift == 0.0 { kept } else { kept + log_ratio().square() * drift }, outside)
        }
        Objective::Cpgd { low, high } => {
            let rising = lp.minimum(&(&tokens.old + (1.0 + high).ln()));
            let falling = lp.maximum(&(&tokens.old + (1.0 - low).ln()));
            let bounded = rising.where_self(&a.gt(0.0), &falling);
            (-(a * &bounded), bounded.detach().ne_tensor(&lp.detach()))
        }
        Objective::Dro { beta } => (-(a * lp - log_ratio().square() * (beta / 2.0)), never()),
        Objective::Spo { eps, by_probability } => {
            let weight = if by_probability { a.abs() * tokens.old.exp() } else { a.abs() };
            (-(a * &r) + weight * (&r - 1.0).square() / (2.0 * eps), never())
        }
        Objective::Vespo { positive, negative, detached } => {
            let d = log_ratio();
            let d = if detached { d.detach() } else { d };
            let total = tokens.sums(&d.clamp(-20.0, 20.0)).clamp(1e-8f64.ln(), 20.0);
            let log_w = total.index_select(0, &tokens.sequence);
            let rising = a.ge(0.0);
            let k = chosen(&rising, positive.0, negative.0, &log_w);
            let lambda = chosen(&rising, positive.1, negative.1, &log_w);
            let phi = (&lambda + k * &log_w - &lambda * log_w.exp()).exp();
            (-(phi * a * lp), never())
        }
        Objective::KlCov { coefficient, .. } => {
            let penalty = log_ratio().abs() * coefficient;
            let loss = -(a * &r);
            ((&loss + penalty).where_self(&picked(tokens), &loss), picked(tokens))
        }
        Objective::Within { .. } => {
            let back = (a * (r.detach() - 1.0)).le(0.0);
            let outside = back.logical_or(&picked(tokens)).logical_not();
            (dropped(&-(a * &r), &outside), outside)
        }
    };
    PolicyLoss { loss, ratio: r.detach(), clipped }
}

fn clip(
    r: &Tensor,
    a: &Tensor,
    [low, high]: [f64; 2],
    dual: Option<f64>,
    cap: Option<f64>,
) -> (Tensor, Tensor) {
    let free = cap.map_or_else(|| r.shallow_clone(), |cap| r.clamp_max(cap));
    let (free, bound) = (-(a * free), -(a * r.clamp(1.0 - low, 1.0 + high)));
    let loss = free.maximum(&bound);
    let clipped = bound.detach().gt_tensor(&free.detach());
    let Some(dual) = dual else { return (loss, clipped) };
    let negative = a.lt(0.0);
    let most = a * -dual;
    let beyond = negative.logical_and(&loss.detach().gt_tensor(&most));
    (loss.minimum(&most).where_self(&negative, &loss), clipped.logical_or(&beyond))
}

/// Where a token has left its region and would go on.
fn outside(region: Region, r: &Tensor, tokens: &Tokens) -> Tensor {
    let (p, mu) = (tokens.log_prob.detach().exp(), tokens.old.exp());
    let rising = tokens.advantage.gt(0.0);
    match region {
        Region::TotalVariation { low, high } => {
            let moved = p - mu;
            moved.gt(high).where_self(&rising, &moved.lt(-low))
        }
        Region::Absolute { bound } => (p - mu).abs().gt(bound),
        Region::BinaryKl { low, high } => {
            let apart = &mu * (&tokens.old - tokens.log_prob.detach());
            let rest = (-&mu + 1.0) * ((-&mu + (1.0 + 1e-8)) / (-&p + (1.0 + 1e-8))).log();
            let kl = apart + rest;
            let far = kl.gt(high).where_self(&rising, &kl.gt(low));
            let going = r.detach().gt(1.0).where_self(&rising, &r.detach().lt(1.0));
            far.logical_and(&going)
        }
    }
}

fn picked(tokens: &Tokens) -> Tensor {
    tokens.picked.as_ref().map_or_else(|| tokens.mask.zeros_like().gt(0.5), Tensor::shallow_clone)
}

/// `x`, but 0 where `gone`.
fn dropped(x: &Tensor, gone: &Tensor) -> Tensor {
    x.zeros_like().where_self(gone, x)
}

/// One of two constants at every token, of the kind of `like`.
fn chosen(condition: &Tensor, yes: f64, no: f64, like: &Tensor) -> Tensor {
    like.full_like(yes).where_self(condition, &like.full_like(no))
}
