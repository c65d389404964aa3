//! Turn rewards into advantages.

use crate::Error;

/// A batch as columns; `B` samples with `T` response tokens in all, one sample after another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// `[B]`
    pub sample_ids: Vec<String>,
    /// `[B]`: index of the prompt group of each sample; members need not be adjacent.
    pub groups: Vec<u32>,
    /// `[B]`; NaN where a sample has no score.
    pub rewards: Vec<f32>,
    /// Named reward components, each `[B]`.
    pub components: Vec<(String, Vec<f32>)>,
    /// `[B]`: response tokens of each sample; they add up to `T`.
    pub lengths: Vec<u32>,
    /// `[T]`: 1 where the token is trained on.
    pub mask: Vec<u8>,
    /// `[T]` or empty: log-probabilities under the policy that sampled.
    pub rollout_logprobs: Vec<f32>,
    /// `[T]` or empty: log-probabilities under the policy before the update.
    pub old_logprobs: Vec<f32>,
    /// `[T]` or empty: log-probabilities under the reference.
    pub reference_logprobs: Vec<f32>,
    /// `[T]` or empty: the critic's values.
    pub values: Vec<f32>,
    /// `[T]`: weight version that sampled each token.
    pub versions: Vec<u32>,
    /// `[T]`: index of the turn of each token.
    pub turns: Vec<u16>,
}

/// What an estimator returns; every value finite.
#[derive(Clone, Debug, PartialEq)]
pub enum Advantages {
    /// `[B]`
    PerSample(Vec<f32>),
    /// `[T]`
    PerToken(Vec<f32>),
}

/// Estimates advantages.
pub trait Advantage {
    /// One value per sample or per token of the batch, in order.
    fn estimate(&self, batch: &Batch) -> Result<Advantages, Error>;
}

/// Makes a type that implements [`Advantage`] the plugin of this crate; see [`reward!`](crate::reward!).
#[macro_export]
macro_rules! advantage {
    ($plugin:ident $($configured:tt)*) => {
        $crate::__plugin!(advantage, $crate::Descriptor::new, $plugin $($configured)*);
    };
}
