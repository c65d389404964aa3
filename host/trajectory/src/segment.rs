//! Token-exact trajectories: a list of segments that say where their tokens came from.
//!
//! Loss masks follow from provenance: what was sampled is trained on, what was observed is not.

use crate::{FinishReason, GroupId, SampleId, WeightVersion};

/// Where a segment's tokens came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Prompt, tool results and template text: loss mask 0.
    Observed,
    /// Sampled by the policy: loss mask 1.
    Sampled,
}

/// A run of tokens of one provenance.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Where the tokens came from.
    pub provenance: Provenance,
    /// Token ids.
    pub tokens: Vec<u32>,
    /// Log-probability of each token under the distribution it was sampled from; empty when observed.
    pub logprobs: Vec<f32>,
    /// Weight version that sampled each token; empty when observed.
    pub versions: Vec<WeightVersion>,
}

impl Segment {
    /// Tokens that the model was given.
    pub fn observed(tokens: Vec<u32>) -> Self {
        Segment { provenance: Provenance::Observed, tokens, logprobs: Vec::new(), versions: Vec::new() }
    }
}

/// One rollout as tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Trajectory {
    /// The sample's identity.
    pub id: SampleId,
    /// The group that it belongs to.
    pub group: GroupId,
    /// Segments in order; the first is the prompt.
    pub segments: Vec<Segment>,
    /// Why generation ended.
    pub finish: FinishReason,
}

impl Trajectory {
    /// All token ids in order.
    pub fn tokens(&self) -> impl Iterator<Item = u32> + '_ {
        self.segments.iter().flat_map(|s| s.tokens.iter().copied())
    }

    /// Length of the leading observed segment.
    pub fn prompt_len(&self) -> usize {
        self.segments.first().filter(|s| s.provenance == Provenance::Observed).map_or(0, |s| s.tokens.len())
    }

    /// Number of tokens that the policy sampled.
    pub fn sampled_len(&self) -> usize {
        self.segments.iter().filter(|s| s.provenance == Provenance::Sampled).map(|s| s.tokens.len()).sum()
    }

    /// One flag per token: true where the token was sampled.
    pub fn loss_mask(&self) -> Vec<bool> {
        self.segments
            .iter()
            .flat_map(|s| std::iter::repeat_n(s.provenance == Provenance::Sampled, s.tokens.len()))
            .collect()
    }
}
