//! What the engine loop needs of a way to compute: caches, a forward pass, draws, new weights.
//!
//! Two exist: `packed` (CPU, own kernels) and `tensors` (any device and kind, plain libtorch).

use crate::request::{EngineError, Sampling};
use crate::sampler::Drawn;
use std::time::Duration;
use tch::Tensor;

/// Tokens to append to one sequence.
pub(crate) struct Run<'a, K> {
    /// Keys and values before the sequence's own, in order: shared, complete, whole blocks but for the last.
    pub prefix: &'a [&'a K],
    /// The sequence's own, to which the tokens' are appended.
    pub own: &'a mut K,
    pub tokens: &'a [u32],
    /// How many of the last tokens need logits.
    pub logits: usize,
}

/// A token to take from one row of the last forward pass's logits.
pub(crate) enum Choice<'a> {
    /// Draws with a number in `[0, 1)`.
    Draw(&'a Sampling, f64),
    /// Scores a given token.
    Given(u32),
}

/// Where the time of an engine went since its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Profile {
    /// Matrix products.
    pub gemm: Duration,
    /// Attention.
    pub attention: Duration,
    /// Sampling.
    pub sampler: Duration,
    /// Norms, rotary positions, copies, bookkeeping.
    pub other: Duration,
    /// The part of all these that went into prompts.
    pub prefill: Duration,
    /// Decode steps.
    pub steps: u64,
    /// Tokens sampled.
    pub tokens: u64,
    /// Tokens of prompts computed, each shared one once.
    pub prompt_tokens: u64,
}

pub(crate) trait Backend {
    /// Keys and values of a stretch of a sequence.
    type Kv;

    /// Positions that memory is given out for at once.
    fn block_positions(&self) -> usize;
    /// Bytes of that memory.
    fn block_bytes(&self) -> usize;
    /// A stretch of no positions.
    fn empty(&self) -> Self::Kv;
    /// Takes the first positions out, whole blocks; `kv` keeps those after them.
    fn split(&mut self, kv: &mut Self::Kv, positions: usize) -> Self::Kv;
    /// Takes memory back.
    fn recycle(&mut self, kv: Self::Kv);
    /// Appends the tokens of every run and keeps the logits asked for, in order of the runs.
    fn forward(&mut self, runs: &mut [Run<'_, Self::Kv>]) -> Result<(), EngineError>;
    /// One choice per kept row of logits; `None` where a logit is not finite.
    fn choose(&mut self, choices: &[Choice<'_>]) -> Vec<Option<Drawn>>;
    /// Replaces the weights; they have been checked.
    fn set_weights(&mut self, tensors: &[(String, Tensor)]) -> Result<(), String>;
    /// The account that the backend adds its time to.
    fn profile(&mut self) -> &mut Profile;
}
