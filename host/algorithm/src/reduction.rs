//! From the losses of tokens to the loss of a batch.
//!
//! A reduction is a weight for every trained token, fixed by the lengths of the whole batch. A part
//! of a batch then only sums, so that every split into parts has the same loss and gradient.

/// How token losses `L_t` become one number. With `S` sequences, sequence `s` of `n_s` trained tokens
/// and `N` tokens in all:
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reduction {
    /// `Σ L / N` (DAPO; verl's and OpenRLHF's default). Long answers weigh more.
    TokenMean,
    /// `Σ L`.
    TokenSum,
    /// `1/S Σ_s (1/n_s Σ_t L)` (GRPO; slime's and TRL's `grpo`). Every answer weighs the same.
    SequenceMeanTokenMean,
    /// `1/S Σ_s Σ_t L`.
    SequenceMeanTokenSum,
    /// `1/(S·length) Σ_s Σ_t L` with a constant length (Dr. GRPO): no bias by length.
    SequenceMeanTokenSumNorm {
        /// The constant, usually the maximum response length.
        length: f64,
    },
}

impl Reduction {
    /// The weight of each sequence's tokens, in order.
    ///
    /// * `lengths`: trained tokens of every sequence of the batch; 0 for one that is masked out
    /// * `sequences`: `S`. verl, OpenRLHF and Whet count the sequences with a trained token
    ///   ([`trained`]); TRL, NeMo RL and slime count all of the batch.
    ///
    /// A batch without a trained token has only weights of 0.
    pub fn weights(self, lengths: &[usize], sequences: usize) -> Vec<f64> {
        let tokens = lengths.iter().sum::<usize>() as f64;
        let sequences = sequences as f64;
        let weight = |length: usize| match self {
            Reduction::TokenMean => 1.0 / tokens,
            Reduction::TokenSum => 1.0,
            Reduction::SequenceMeanTokenMean => 1.0 / (sequences * length as f64),
            Reduction::SequenceMeanTokenSum => 1.0 / sequences,
            Reduction::SequenceMeanTokenSumNorm { length } => 1.0 / (sequences * length),
        };
        lengths.iter().map(|&length| if length == 0 { 0.0 } else { weight(length) }).collect()
    }
}

/// The number of sequences with at least one trained token.
pub fn trained(lengths: &[usize]) -> usize {
    lengths.iter().filter(|&&length| length > 0).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduce(reduction: Reduction, losses: &[&[f64]]) -> f64 {
        let lengths: Vec<usize> = losses.iter().map(|l| l.len()).collect();
        let weights = reduction.weights(&lengths, trained(&lengths));
        losses.iter().zip(weights).map(|(l, w)| w * l.iter().sum::<f64>()).sum()
    }

    #[test]
    fn each_reduction_is_the_mean_it_is_named_after() {
        let losses: [&[f64]; 3] = [&[1.0, 2.0, 3.0], &[10.0], &[]];
        for (reduction, expected) in [
            (Reduction::TokenMean, 4.0),
            (Reduction::TokenSum, 16.0),
            (Reduction::SequenceMeanTokenMean, 6.0),
            (Reduction::SequenceMeanTokenSum, 8.0),
            (Reduction::SequenceMeanTokenSumNorm { length: 4.0 }, 2.0),
        ] {
            assert!((reduce(reduction, &losses) - expected).abs() < 1e-12, "{reduction:?}");
        }
    }

    #[test]
    fn a_batch_without_a_trained_token_weighs_nothing() {
        for reduction in
            [Reduction::TokenMean, Reduction::SequenceMeanTokenMean, Reduction::SequenceMeanTokenSum]
        {
            assert_eq!(reduction.weights(&[0, 0], 0), vec![0.0, 0.0]);
        }
    }
}
