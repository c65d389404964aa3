//! Losses of pairs: one answer is preferred to another. Plain numbers, since a pair is one number.
//!
//! `h` is how much further the policy than the reference prefers the chosen answer:
//! `h = (log π(c) - log π_ref(c)) - (log π(r) - log π_ref(r))`.

use super::LossError;

/// A loss of `h`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PreferenceLoss {
    /// `-(1 - ε) log σ(β h) - ε log σ(-β h)` (DPO, arXiv 2305.18290; with `ε` conservative DPO).
    Sigmoid {
        /// `β`.
        beta: f64,
        /// `ε`, the part of the labels that is taken to be the wrong way round.
        smoothing: f64,
    },
    /// `max(0, 1 - β h)` (SLiC, arXiv 2305.10425, as TRL has it).
    Hinge {
        /// `β`.
        beta: f64,
    },
    /// `(h - 1 / (2 β))²` with the mean log-probability of a token in place of the sequence's (IPO, arXiv 2310.12036,
    /// as its authors and TRL compute it).
    Ipo {
        /// `β`.
        beta: f64,
    },
}

impl PreferenceLoss {
    /// Refuses numbers out of range.
    pub fn check(self) -> Result<(), LossError> {
        let (PreferenceLoss::Sigmoid { beta, .. }
        | PreferenceLoss::Hinge { beta }
        | PreferenceLoss::Ipo { beta }) = self;
        super::positive("beta", beta)?;
        match self {
            PreferenceLoss::Sigmoid { smoothing, .. } if !(0.0..0.5).contains(&smoothing) => {
                let range = "at least 0 and below 0.5, where the labels would say nothing";
                Err(LossError::Range { option: "label smoothing", value: smoothing, range })
            }
            _ => Ok(()),
        }
    }

    /// The loss and its derivative by `h`.
    pub fn value(self, h: f64) -> (f64, f64) {
        match self {
            PreferenceLoss::Sigmoid { beta, smoothing } => {
                let x = beta * h;
                let loss = (1.0 - smoothing) * softplus(-x) + smoothing * softplus(x);
                (loss, beta * (smoothing * sigmoid(x) - (1.0 - smoothing) * sigmoid(-x)))
            }
            PreferenceLoss::Hinge { beta } => {
                let short = 1.0 - beta * h;
                if short > 0.0 { (short, -beta) } else { (0.0, 0.0) }
            }
            PreferenceLoss::Ipo { beta } => {
                let miss = h - 0.5 / beta;
                (miss * miss, 2.0 * miss)
            }
        }
    }

    /// `β`, which turns `h` into the difference of implicit rewards.
    pub fn beta(self) -> f64 {
        let (PreferenceLoss::Sigmoid { beta, .. }
        | PreferenceLoss::Hinge { beta }
        | PreferenceLoss::Ipo { beta }) = self;
        beta
    }

    /// Whether a sequence counts with the mean of its tokens' log-probabilities instead of their sum.
    pub fn per_token(self) -> bool {
        matches!(self, PreferenceLoss::Ipo { .. })
    }
}

/// `-log σ(margin)` and its derivative: the model of Bradley and Terry, in which the chosen answer wins with
/// probability `σ(margin)` (InstructGPT, arXiv 2203.02155).
pub fn bradley_terry(margin: f64) -> (f64, f64) {
    (softplus(-margin), -sigmoid(-margin))
}

/// `log(1 + e^x)`, without overflow.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 { 1.0 / (1.0 + (-x).exp()) } else { x.exp() / (1.0 + x.exp()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(found: (f64, f64), expected: (f64, f64)) {
        assert!((found.0 - expected.0).abs() < 1e-12 && (found.1 - expected.1).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn losses_are_those_worked_out_by_hand() {
        // σ(0) = 1/2, σ(log 3) = 3/4.
        let three = 3f64.ln();
        let dpo = PreferenceLoss::Sigmoid { beta: 0.1, smoothing: 0.0 };
        near(dpo.value(0.0), (2f64.ln(), -0.05));
        near(dpo.value(10.0 * three), ((4.0f64 / 3.0).ln(), -0.1 * 0.25));
        let smoothed = PreferenceLoss::Sigmoid { beta: 0.1, smoothing: 0.2 };
        near(
            smoothed.value(10.0 * three),
            (0.8 * (4.0f64 / 3.0).ln() + 0.2 * 4f64.ln(), 0.1 * (0.2 * 0.75 - 0.8 * 0.25)),
        );
        near(PreferenceLoss::Hinge { beta: 0.5 }.value(1.0), (0.5, -0.5));
        near(PreferenceLoss::Hinge { beta: 0.5 }.value(2.5), (0.0, 0.0));
        near(PreferenceLoss::Ipo { beta: 0.1 }.value(3.0), (4.0, -4.0));
        near(bradley_terry(three), ((4.0f64 / 3.0).ln(), -0.25));
        near(bradley_terry(0.0), (2f64.ln(), -0.5));
    }

    #[test]
    fn no_difference_is_too_large() {
        assert_eq!(bradley_terry(1e4), (0.0, -0.0));
        assert_eq!(bradley_terry(-1e4), (1e4, -1.0));
    }

    #[test]
    fn labels_that_say_nothing_are_refused() {
        let loss = PreferenceLoss::Sigmoid { beta: 0.1, smoothing: 0.5 };
        assert!(matches!(loss.check(), Err(LossError::Range { option: "label smoothing", .. })));
        assert!(matches!(
            PreferenceLoss::Ipo { beta: 0.0 }.check(),
            Err(LossError::Range { option: "beta", .. })
        ));
    }

    proptest! {
        #[test]
        fn for_every_difference_the_derivative_is_that_of_the_loss(
            h in -30.0f64..30.0, beta in 0.01f64..2.0, smoothing in 0.0f64..0.5
        ) {
            let losses = [
                PreferenceLoss::Sigmoid { beta, smoothing },
                PreferenceLoss::Hinge { beta },
                PreferenceLoss::Ipo { beta },
            ];
            for loss in losses {
                // The hinge has no derivative at its corner.
                prop_assume!((1.0 - beta * h).abs() > 1e-3);
                let numeric = (loss.value(h + 1e-5).0 - loss.value(h - 1e-5).0) / 2e-5;
                prop_assert!((loss.value(h).1 - numeric).abs() < 1e-5 * numeric.abs().max(1.0), "{loss:?}");
            }
        }
    }
}
