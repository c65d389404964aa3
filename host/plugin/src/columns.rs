//! A training batch as columns, for advantage plugins.

use crate::CallError;

/// A batch of samples. Per-token columns hold the samples' response tokens one after another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Identity of each sample.
    pub sample_ids: Vec<String>,
    /// Index of the prompt group of each sample.
    pub groups: Vec<u32>,
    /// Reward of each sample.
    pub rewards: Vec<f32>,
    /// Named reward components, each one value per sample.
    pub components: Vec<(String, Vec<f32>)>,
    /// Response tokens of each sample.
    pub lengths: Vec<u32>,
    /// Per token: 1 where it is trained on.
    pub mask: Vec<u8>,
    /// Per token: log-probability under the policy that sampled; empty where the run has none.
    pub rollout_logprobs: Vec<f32>,
    /// Per token: log-probability under the policy before the update; empty where the run has none.
    pub old_logprobs: Vec<f32>,
    /// Per token: log-probability under the reference; empty where the run has none.
    pub reference_logprobs: Vec<f32>,
    /// Per token: the critic's value; empty without a critic.
    pub values: Vec<f32>,
    /// Per token: weight version that sampled it.
    pub versions: Vec<u32>,
    /// Per token: index of its turn.
    pub turns: Vec<u16>,
}

/// What an advantage plugin returns.
#[derive(Clone, Debug, PartialEq)]
pub enum Advantages {
    /// One value per sample.
    PerSample(Vec<f32>),
    /// One value per response token, the samples one after another.
    PerToken(Vec<f32>),
}

impl Batch {
    /// Response tokens of all samples.
    pub fn tokens(&self) -> usize {
        self.lengths.iter().map(|&n| n as usize).sum()
    }

    /// Refuses columns that do not fit each other.
    pub(crate) fn check(&self) -> Result<(), CallError> {
        let samples = self.sample_ids.len();
        let tokens = self.tokens();
        let per_sample =
            [("groups", self.groups.len()), ("rewards", self.rewards.len()), ("lengths", self.lengths.len())];
        for (name, len) in per_sample {
            expect(name, len, samples)?;
        }
        for (name, values) in &self.components {
            expect(name, values.len(), samples)?;
        }
        let per_token = [
            ("mask", self.mask.len(), false),
            ("rollout-logprobs", self.rollout_logprobs.len(), true),
            ("old-logprobs", self.old_logprobs.len(), true),
            ("reference-logprobs", self.reference_logprobs.len(), true),
            ("values", self.values.len(), true),
            ("versions", self.versions.len(), true),
            ("turns", self.turns.len(), true),
        ];
        for (name, len, optional) in per_token {
            if !(optional && len == 0) {
                expect(name, len, tokens)?;
            }
        }
        Ok(())
    }
}

fn expect(column: &str, found: usize, needed: usize) -> Result<(), CallError> {
    if found == needed {
        return Ok(());
    }
    Err(CallError::BadBatch(format!("column `{column}` has {found} values, needed are {needed}")))
}
