//! Losses of tokens, on flat tensors: one entry per token, sequences told apart by an index.
//!
//! A loss is a ratio, an objective of it, perhaps a divergence from a reference, and weights: of the
//! reduction (`whet_algorithm::Reduction`) and of the correction for off-policy tokens. Gradients
//! are autograd's, with respect to the log-probabilities alone; the model's follow from them in
//! `head`. Nothing here knows a model.

pub mod distillation;
mod objective;
mod preference;
mod value;

pub use objective::{Known, Objective, PolicyLoss, Region, Surrogate, policy};
pub use preference::{PreferenceLoss, bradley_terry};
pub use value::{ValueError, ValueLoss, value};

use tch::{Kind, Tensor};
use whet_algorithm::correction::Rejection;
use whet_algorithm::{Correction, Kl, KlEstimator, KlGradient, Reduction};

/// Over what `r = p / p_old` is formed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RatioLevel {
    /// Each token by itself (PPO).
    #[default]
    Token,
    /// The geometric mean over a sequence's trained tokens, differentiated as such (GSPO, arXiv
    /// 2507.18071; TRL `sequence`, slime, NeMo RL, AReaL).
    Sequence,
    /// The value of [`RatioLevel::Sequence`], the gradient of the token (GSPO-token; verl `gspo`, TRL
    /// `sequence_token`).
    SequenceToken,
}

/// How the ratio is formed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ratio {
    /// Over what.
    pub level: RatioLevel,
    /// Bounds the log-ratio before the exponential, if set; no gradient passes beyond. verl and OpenRLHF: ±20.
    pub clamp_log: Option<f64>,
}

/// A divergence from the reference, added to the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KlTerm {
    /// The estimator.
    pub estimator: KlEstimator,
    /// Its coefficient.
    pub coefficient: f64,
}

/// Whose log-probabilities the ratio compares with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OldPolicy {
    /// The trainer's own before the first update of the batch.
    #[default]
    Trainer,
    /// The sampler's (`use_rollout_logprobs`, verl's bypass mode): the ratio corrects for both.
    Rollout,
    /// The trainer's own at this very update: the ratio is 1 (slime and Relax `true_on_policy`).
    Current,
}

/// What entropy has to do with the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entropy {
    /// `bonus · H` is taken off every token's loss.
    pub bonus: f64,
    /// Only this share of the batch's tokens, those of highest entropy, has a policy-gradient term (arXiv 2506.01939,
    /// TRL `top_entropy_quantile`). Means keep counting the others.
    pub top_share: f64,
}

impl Default for Entropy {
    fn default() -> Self {
        Entropy { bonus: 0.0, top_share: 1.0 }
    }
}

/// A rule by which tokens, or whole sequences, are left out of the policy-gradient term. Means keep counting them, so
/// that a rule scales gradients down, never up (AReaL, TRL).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reject {
    /// What sampler and trainer disagree on too much.
    Mismatch(Rejection),
    /// Sequences with a ratio `p_old / p_rollout` below the number (slime's veto).
    Veto(f64),
    /// Tokens with `A < 0` in sequences whose mean log-probability has fallen by more than `delta` (DeepSeek-V3.2).
    OffPolicy {
        /// The fall allowed.
        delta: f64,
        /// It is counted from the sampler's log-probability rather than the old one.
        from_rollout: bool,
    },
    /// Tokens of the largest `(log p_old - log p_rollout)²` in the batch, until the mean of the rest is below the number
    /// (M2PO as AReaL has it).
    SecondMoment(f64),
}

/// A loss as typed parts. What cannot be combined is refused by [`LossOptions::check`].
#[derive(Clone, Debug, PartialEq)]
pub struct LossOptions {
    /// Whose log-probabilities are the old ones.
    pub old: OldPolicy,
    /// The ratio.
    pub ratio: Ratio,
    /// The policy-gradient term.
    pub objective: Objective,
    /// The divergence from the reference, if any.
    pub kl: Option<KlTerm>,
    /// What entropy has to do with it.
    pub entropy: Entropy,
    /// The weight for tokens of another policy, `p_old / p_rollout`, if any.
    pub correction: Option<Correction>,
    /// Weights are divided by their mean over the batch.
    pub normalise_correction: bool,
    /// What is left out of the policy-gradient term.
    pub rejections: Vec<Reject>,
    /// From tokens to a batch.
    pub reduction: Reduction,
    /// The rollout's sampling temperature; log-probabilities are those of the tempered distribution.
    pub temperature: f64,
}

impl Default for LossOptions {
    /// GRPO as TRL and verl run it: clip 0.2, no KL, tokens of every answer averaged, TIS at 2.
    fn default() -> Self {
        LossOptions {
            old: OldPolicy::Trainer,
            ratio: Ratio { level: RatioLevel::Token, clamp_log: Some(20.0) },
            objective: Objective::ppo(0.2),
            kl: None,
            entropy: Entropy::default(),
            correction: Some(Correction::truncated(2.0)),
            normalise_correction: false,
            rejections: Vec::new(),
            reduction: Reduction::SequenceMeanTokenMean,
            temperature: 1.0,
        }
    }
}

/// Why a loss makes no sense.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum LossError {
    /// A number is outside its range.
    #[error("`{option}` is {value}, but must be {range}")]
    Range {
        /// The option.
        option: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        range: &'static str,
    },
    /// Two options contradict each other.
    #[error("{0}")]
    Contradiction(&'static str),
}

impl LossOptions {
    /// Refuses numbers out of range and combinations without meaning.
    pub fn check(&self) -> Result<(), LossError> {
        let positive = |option, value: f64| {
            let range = "finite and above 0";
            if value.is_finite() && value > 0.0 {
                Ok(())
            } else {
                Err(LossError::Range { option, value, range })
            }
        };
        positive("temperature", self.temperature)?;
        self.objective.check()?;
        if let Some(kl) = self.kl {
            positive("kl coefficient", kl.coefficient)?;
        }
        if let Reduction::SequenceMeanTokenSumNorm { length } = self.reduction {
            positive("reduction length", length)?;
        }
        if !(self.entropy.bonus.is_finite() && self.entropy.bonus >= 0.0) {
            let range = "finite and at least 0";
            return Err(LossError::Range { option: "entropy bonus", value: self.entropy.bonus, range });
        }
        if !(self.entropy.top_share > 0.0 && self.entropy.top_share <= 1.0) {
            let range = "above 0 and at most 1";
            return Err(LossError::Range { option: "entropy share", value: self.entropy.top_share, range });
        }
        if self.old == OldPolicy::Rollout && self.correction.is_some() {
            return Err(LossError::Contradiction(
                "with the rollout's log-probabilities as the old ones, the ratio already corrects for the rollout: \
                 remove either `old` or `correction`",
            ));
        }
        Ok(())
    }
}

fn positive(option: &'static str, value: f64) -> Result<(), LossError> {
    let range = "finite and above 0";
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(LossError::Range { option, value, range }) }
}

/// What a loss reads, one entry per token. Masked entries are replaced, so that not even a NaN there matters.
#[derive(Debug)]
pub struct Tokens {
    /// Log-probabilities under the policy; gradients flow to these.
    pub log_prob: Tensor,
    /// Log-probabilities under the old policy.
    pub old: Tensor,
    /// Advantages.
    pub advantage: Tensor,
    /// 1 where trained, else 0.
    pub mask: Tensor,
    /// Sequence of each token, i64 in `0..sequences`.
    pub sequence: Tensor,
    /// Number of sequences.
    pub sequences: i64,
    /// Tokens that a rule over the whole batch has picked, boolean; what it means is the objective's.
    pub picked: Option<Tensor>,
}

impl Tokens {
    /// Takes lists of one length; `trained` is boolean.
    pub fn new(
        log_prob: &Tensor,
        old: &Tensor,
        advantage: &Tensor,
        trained: &Tensor,
        sequence: &Tensor,
        sequences: i64,
    ) -> Tokens {
        let masked = |t: &Tensor| t.where_self(trained, &t.zeros_like());
        Tokens {
            log_prob: masked(log_prob),
            old: masked(old),
            advantage: masked(advantage),
            mask: trained.to_kind(log_prob.kind()),
            sequence: sequence.shallow_clone(),
            sequences,
            picked: None,
        }
    }

    /// `Σ x` over each sequence's trained tokens, `[sequences]`.
    pub fn sums(&self, x: &Tensor) -> Tensor {
        let zeros = Tensor::zeros([self.sequences], (x.kind(), x.device()));
        zeros.index_add(0, &self.sequence, &(x * &self.mask))
    }

    /// The mean over each sequence's trained tokens (0 for one without), at every token.
    pub fn means(&self, x: &Tensor) -> Tensor {
        let counts = self.sums(&self.mask).clamp_min(1.0);
        (self.sums(x) / counts).index_select(0, &self.sequence)
    }
}

/// `r`, one entry per token.
pub fn ratio(ratio: Ratio, tokens: &Tokens) -> Tensor {
    let token = &tokens.log_prob - &tokens.old;
    let log_ratio = match ratio.level {
        RatioLevel::Token => token,
        RatioLevel::Sequence => tokens.means(&token),
        RatioLevel::SequenceToken => {
            &tokens.log_prob - tokens.log_prob.detach() + tokens.means(&token).detach()
        }
    };
    match ratio.clamp_log {
        Some(bound) => log_ratio.clamp(-bound, bound).exp(),
        None => log_ratio.exp(),
    }
}

/// The estimate of the divergence from the reference at every token, with its graph.
///
/// `log_prob`, `reference` and `old` are of one shape; `old` is read by [`KlGradient::Reweighted`] alone.
pub fn divergence(estimator: KlEstimator, log_prob: &Tensor, reference: &Tensor, old: &Tensor) -> Tensor {
    let free = reference - log_prob;
    let d = estimator.clamp_ratio.map_or_else(|| free.shallow_clone(), |bound| free.clamp(-bound, bound));
    let value = match estimator.kl {
        Kl::K1 => -&d,
        Kl::Abs => d.abs(),
        Kl::K2 => d.square() * 0.5,
        Kl::K3 => d.expm1() - &d,
    };
    let clamp = |value: Tensor| match estimator.clamp_value {
        Some(bound) => value.clamp(-bound, bound),
        None => value,
    };
    match estimator.gradient {
        KlGradient::Direct => clamp(value),
        KlGradient::StraightThrough => {
            let k2 = free.square() * 0.5;
            &k2 - k2.detach() + clamp(value).detach()
        }
        KlGradient::Reweighted => clamp(value * (log_prob - old).exp()),
        KlGradient::Score => clamp(value * (log_prob - log_prob.detach()).exp()),
    }
}

/// A list as a tensor of `kind`, on the CPU, where losses are computed.
pub(crate) fn tensor(values: &[f64], kind: Kind) -> Tensor {
    Tensor::from_slice(values).to_kind(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(
        log_prob: &[f64],
        old: &[f64],
        advantage: &[f64],
        mask: &[bool],
        sequence: &[i64],
    ) -> (Tensor, Tokens) {
        let leaf = Tensor::from_slice(log_prob).set_requires_grad(true);
        let sequences = sequence.iter().max().map_or(0, |m| m + 1);
        let tokens = Tokens::new(
            &leaf,
            &Tensor::from_slice(old),
            &Tensor::from_slice(advantage),
            &Tensor::from_slice(mask),
            &Tensor::from_slice(sequence),
            sequences,
        );
        (leaf, tokens)
    }

    fn gradient(leaf: &Tensor, loss: &Tensor) -> Vec<f64> {
        let grads = Tensor::run_backward(&[loss.sum(Kind::Double)], &[leaf], false, false);
        Vec::try_from(&grads[0]).expect("a list of f64")
    }

    #[test]
    fn at_the_old_policy_the_gradient_is_minus_the_advantage() {
        for level in [RatioLevel::Token, RatioLevel::SequenceToken] {
            let (leaf, tokens) = tokens(&[-1.0, -2.0], &[-1.0, -2.0], &[0.5, -3.0], &[true; 2], &[0, 0]);
            let how = Ratio { level, clamp_log: Some(20.0) };
            let loss = policy(Objective::ppo(0.2), how, &tokens).loss;
            assert_eq!(gradient(&leaf, &loss), [-0.5, 3.0], "{level:?}");
        }
    }

    #[test]
    fn a_ratio_beyond_its_bound_gives_no_gradient_only_where_it_would_go_further() {
        // Ratio e: going up is clipped, coming down is not.
        let (leaf, tokens) = tokens(&[0.0, 0.0], &[-1.0, -1.0], &[1.0, -1.0], &[true; 2], &[0, 0]);
        let result = policy(Objective::ppo(0.2), Ratio::default(), &tokens);
        let clipped: Vec<bool> = Vec::try_from(&result.clipped).expect("a list of bool");
        assert_eq!(clipped, [true, false]);
        let gradient = gradient(&leaf, &result.loss);
        assert_eq!(gradient[0], 0.0);
        assert!((gradient[1] - 1f64.exp()).abs() < 1e-12);
    }

    #[test]
    fn not_even_a_nan_at_a_masked_token_reaches_loss_or_gradient() {
        for level in [RatioLevel::Token, RatioLevel::Sequence, RatioLevel::SequenceToken] {
            let nan = f64::NAN;
            let (leaf, tokens) = tokens(&[-1.0, nan], &[-1.2, nan], &[1.0, nan], &[true, false], &[0, 0]);
            let loss = policy(Objective::ppo(0.2), Ratio { level, clamp_log: None }, &tokens).loss;
            assert!(gradient(&leaf, &loss).iter().all(|g| g.is_finite()), "{level:?}");
        }
    }

    #[test]
    fn values_agree_with_the_definitions_on_slices() {
        let (p, q) = ([-1.0, -2.0, -40.0], [-1.5, -1.0, -1.0]);
        for kl in [Kl::K1, Kl::Abs, Kl::K2, Kl::K3] {
            for estimator in [KlEstimator::plain(kl), KlEstimator::bounded(kl)] {
                let (tp, tq) = (Tensor::from_slice(&p), Tensor::from_slice(&q));
                let values: Vec<f64> = Vec::try_from(divergence(estimator, &tp, &tq, &tp)).expect("f64");
                for t in 0..p.len() {
                    let expected = estimator.value(p[t], q[t]);
                    assert!((values[t] - expected).abs() <= 1e-12 * expected.abs(), "{estimator:?}");
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let options = LossOptions { temperature: 0.0, ..LossOptions::default() };
        assert!(matches!(options.check(), Err(LossError::Range { option: "temperature", .. })));
        let options = LossOptions { old: OldPolicy::Rollout, ..LossOptions::default() };
        assert!(matches!(options.check(), Err(LossError::Contradiction(_))));
        assert_eq!(LossOptions::default().check(), Ok(()));
    }
}
