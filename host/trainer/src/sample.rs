//! What is trained on.

use whet_trajectory::{GroupId, SampleId};

/// One token sequence with what its loss needs. Lists have one entry per token of `tokens`.
#[derive(Clone, Debug)]
pub struct TrainSample {
    /// Whose tokens these are.
    pub id: SampleId,
    /// The samples that were drawn for the same prompt.
    pub group: GroupId,
    /// Prompt and response, exactly as sampled.
    pub tokens: Vec<u32>,
    /// Length of the prompt; at least 1.
    pub prompt_len: usize,
    /// Which tokens are trained: those the policy sampled.
    pub loss_mask: Vec<bool>,
    /// Log-probability of each token under the sampler; read where trained.
    pub rollout_logprobs: Vec<f32>,
    /// Advantage of each token; read where trained.
    pub advantages: Vec<f32>,
    /// Log-probabilities by the trainer before the first update of this batch. Without them the
    /// current policy counts as the old one, which is right when a batch has a single update.
    pub old_logprobs: Option<Vec<f32>>,
    /// Log-probabilities by the reference. Without them the trainer computes them where a loss asks.
    pub reference_logprobs: Option<Vec<f32>>,
}

/// Why a sample cannot be trained on.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum SampleError {
    /// A list is not as long as the tokens.
    #[error("sample {id}: `{list}` has {found} entries for {expected} tokens")]
    Length {
        /// The sample.
        id: SampleId,
        /// The list.
        list: &'static str,
        /// Entries found.
        found: usize,
        /// Tokens.
        expected: usize,
    },
    /// The prompt is empty, or longer than the sequence.
    #[error(
        "sample {id}: the prompt has {prompt} of {tokens} tokens; it needs at least one, and at most all"
    )]
    Prompt {
        /// The sample.
        id: SampleId,
        /// `prompt_len`.
        prompt: usize,
        /// Tokens.
        tokens: usize,
    },
    /// The very first token is trained, though nothing predicts it.
    #[error("sample {id}: the first token is trained, but no token before it predicts it")]
    FirstToken {
        /// The sample.
        id: SampleId,
    },
    /// A token is not in the vocabulary.
    #[error("sample {id}: token {token} is outside the vocabulary of {vocabulary}")]
    Token {
        /// The sample.
        id: SampleId,
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocabulary: i64,
    },
    /// An advantage or log-probability of a trained token is not finite.
    #[error("sample {id}: `{list}` is {value} at trained token {position}")]
    NotFinite {
        /// The sample.
        id: SampleId,
        /// The list.
        list: &'static str,
        /// Index of the token.
        position: usize,
        /// The value.
        value: f32,
    },
}

impl TrainSample {
    /// Given tokens, which nobody sampled and no advantage weighs; `loss_mask` says what is learnt of them.
    pub fn given(id: SampleId, group: GroupId, tokens: Vec<u32>, loss_mask: Vec<bool>) -> TrainSample {
        TrainSample {
            prompt_len: loss_mask.iter().position(|&m| m).unwrap_or(tokens.len()),
            rollout_logprobs: vec![0.0; tokens.len()],
            advantages: vec![0.0; tokens.len()],
            old_logprobs: None,
            reference_logprobs: None,
            id,
            group,
            tokens,
            loss_mask,
        }
    }

    /// Number of trained tokens.
    pub fn trained(&self) -> usize {
        self.loss_mask.iter().filter(|&&m| m).count()
    }

    /// Refuses what cannot be computed, before anything is.
    pub(crate) fn check(&self, vocabulary: i64) -> Result<(), SampleError> {
        let (id, expected) = (&self.id, self.tokens.len());
        let optional = |list: &Option<Vec<f32>>| list.as_ref().map_or(expected, Vec::len);
        for (list, found) in [
            ("loss_mask", self.loss_mask.len()),
            ("rollout_logprobs", self.rollout_logprobs.len()),
            ("advantages", self.advantages.len()),
            ("old_logprobs", optional(&self.old_logprobs)),
            ("reference_logprobs", optional(&self.reference_logprobs)),
        ] {
            if found != expected {
                return Err(SampleError::Length { id: id.clone(), list, found, expected });
            }
        }
        if self.prompt_len == 0 || self.prompt_len > expected {
            return Err(SampleError::Prompt { id: id.clone(), prompt: self.prompt_len, tokens: expected });
        }
        if self.loss_mask[0] {
            return Err(SampleError::FirstToken { id: id.clone() });
        }
        if let Some(&token) = self.tokens.iter().find(|&&t| i64::from(t) >= vocabulary) {
            return Err(SampleError::Token { id: id.clone(), token, vocabulary });
        }
        let lists = [
            ("rollout_logprobs", Some(&self.rollout_logprobs)),
            ("advantages", Some(&self.advantages)),
            ("old_logprobs", self.old_logprobs.as_ref()),
            ("reference_logprobs", self.reference_logprobs.as_ref()),
        ];
        for (list, values) in lists {
            let bad = values.and_then(|v| (0..expected).find(|&t| self.loss_mask[t] && !v[t].is_finite()));
            if let (Some(position), Some(values)) = (bad, values) {
                return Err(SampleError::NotFinite {
                    id: id.clone(),
                    list,
                    position,
                    value: values[position],
                });
            }
        }
        Ok(())
    }

    /// Tokens that have to be computed: all before the last trained one.
    pub(crate) fn computed(&self) -> &[u32] {
        &self.tokens[..self.loss_mask.iter().rposition(|&m| m).unwrap_or(0)]
    }

    /// Whether the advantage of any trained token is not 0.
    pub(crate) fn has_advantage(&self) -> bool {
        self.loss_mask.iter().zip(&self.advantages).any(|(&trained, &advantage)| trained && advantage != 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(group: u32, number: usize, prompt: &[u32], response: &[u32]) -> TrainSample {
        let tokens: Vec<u32> = prompt.iter().chain(response).copied().collect();
        let loss_mask: Vec<bool> = (0..tokens.len()).map(|t| t >= prompt.len()).collect();
        TrainSample {
            id: SampleId(format!("{group}/{number}")),
            group: GroupId(group.to_string()),
            rollout_logprobs: vec![0.0; tokens.len()],
            advantages: vec![1.0; tokens.len()],
            prompt_len: prompt.len(),
            loss_mask,
            tokens,
            old_logprobs: None,
            reference_logprobs: None,
        }
    }

    #[test]
    fn a_trained_token_without_a_finite_advantage_is_refused() {
        let mut bad = sample(0, 0, &[1, 2], &[3, 4]);
        bad.advantages[0] = f32::NAN;
        assert_eq!(bad.check(10), Ok(()));
        bad.advantages[3] = f32::NAN;
        assert!(matches!(bad.check(10), Err(SampleError::NotFinite { list: "advantages", position: 3, .. })));
        assert!(matches!(sample(0, 0, &[1], &[30]).check(10), Err(SampleError::Token { token: 30, .. })));
    }
}
