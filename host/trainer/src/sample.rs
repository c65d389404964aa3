//! What is trained on, and how a batch is cut into micro-batches.
//!
//! Samples of one group share their prompt, and the prompt is computed once per micro-batch: a tree
//! whose trunk is the prompt and whose branches are the responses. Nothing is padded, and nothing
//! behind the last trained token is computed.

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
    /// Length of the prefix that the group shares; at least 1.
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
    fn computed(&self) -> usize {
        self.loss_mask.iter().rposition(|&m| m).unwrap_or(0)
    }
}

/// A trunk and the samples that grow from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shoot {
    /// Length of the common prefix.
    pub prefix: usize,
    /// Whether several samples of the batch have this prefix. It decides how a sample is laid out, hence
    /// how its sums round, and so must not depend on the cut.
    pub shared: bool,
    /// Indices of the samples.
    pub samples: Vec<usize>,
}

/// Cuts a batch into micro-batches of at most `budget` token rows each, unless one sample alone has more.
///
/// Samples without a trained token are left out. Groups stay together where they fit; a group that
/// is cut has its prompt computed once in each part. The plan depends on the samples alone.
pub fn plan(samples: &[TrainSample], budget: usize) -> Vec<Vec<Shoot>> {
    let mut shoots: Vec<Shoot> = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        if sample.trained() == 0 {
            continue;
        }
        let prompt = &sample.tokens[..sample.prompt_len];
        let same = |shoot: &&mut Shoot| {
            let first = &samples[shoot.samples[0]];
            first.group == sample.group && first.tokens[..first.prompt_len] == *prompt
        };
        match shoots.iter_mut().find(same) {
            Some(shoot) => {
                shoot.shared = true;
                shoot.samples.push(index);
            }
            None => {
                let prefix = sample.prompt_len;
                shoots.push(Shoot { prefix, shared: false, samples: vec![index] });
            }
        }
    }
    let branch = |index: usize| samples[index].computed().saturating_sub(samples[index].prompt_len);
    let rows = |shoot: &Shoot| shoot.prefix + shoot.samples.iter().map(|&i| branch(i)).sum::<usize>();

    let total: usize = shoots.iter().map(&rows).sum();
    let parts = total.div_ceil(budget.max(1)).max(1);
    // Equal parts rather than full ones and a rest: the largest decides how much memory is needed.
    let target = total.div_ceil(parts);
    let mut batches: Vec<(usize, Vec<Shoot>)> = Vec::new();
    let mut current: (usize, Vec<Shoot>) = (0, Vec::new());
    for shoot in shoots {
        let mut open: Option<Shoot> = None;
        let Shoot { prefix, shared, samples: members } = shoot;
        for index in members {
            let cost = branch(index) + if open.is_none() { prefix } else { 0 };
            let overflows = current.0 + cost > budget || (current.0 >= target && open.is_none());
            if overflows && current.0 > 0 {
                current.1.extend(open.take());
                batches.push(std::mem::take(&mut current));
            }
            let part = open.get_or_insert_with(|| {
                current.0 += prefix;
                Shoot { prefix, shared, samples: Vec::new() }
            });
            part.samples.push(index);
            current.0 += branch(index);
        }
        current.1.extend(open);
    }
    if !current.1.is_empty() {
        batches.push(current);
    }
    batches.into_iter().map(|(_, shoots)| shoots).collect()
}

/// One trained token: who predicts it, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Index into [`Layout::rows`].
    pub row: usize,
    /// The token predicted.
    pub token: u32,
    /// Index of the sample.
    pub sample: usize,
    /// Index of the token in the sample.
    pub position: usize,
}

/// A micro-batch laid out in rows.
#[derive(Debug)]
pub struct Layout {
    /// Token of each row.
    pub ids: Vec<u32>,
    /// The trees of the rows.
    pub trees: Vec<whet_model::Tree>,
    /// The rows that predict something, ascending.
    pub rows: Vec<i64>,
    /// What they predict, ascending by row.
    pub targets: Vec<Target>,
}

impl Layout {
    /// Lays out the shoots of a micro-batch one after another.
    pub fn new(samples: &[TrainSample], shoots: &[Shoot]) -> Layout {
        let mut layout = Layout { ids: vec![], trees: vec![], rows: vec![], targets: vec![] };
        // (row among all, target); rows are numbered among the predicting ones afterwards.
        let mut targets: Vec<(usize, Target)> = Vec::new();
        for shoot in shoots {
            let start = layout.ids.len();
            let first = &samples[shoot.samples[0]];
            let prefix = if shoot.shared { shoot.prefix } else { first.computed() };
            layout.ids.extend(&first.tokens[..prefix]);
            let mut branches = Vec::new();
            for &index in &shoot.samples {
                let sample = &samples[index];
                let branch = layout.ids.len();
                if sample.computed() > prefix {
                    layout.ids.extend(&sample.tokens[prefix..sample.computed()]);
                    branches.push(sample.computed() - prefix);
                }
                for position in (0..sample.tokens.len()).filter(|&t| sample.loss_mask[t]) {
                    let row = if position <= prefix {
                        start + position - 1
                    } else {
                        branch + position - 1 - prefix
                    };
                    targets.push((
                        row,
                        Target { row: 0, token: sample.tokens[position], sample: index, position },
                    ));
                }
            }
            layout.trees.push(whet_model::Tree { start, prefix, branches });
        }
        targets.sort_by_key(|(row, target)| (*row, target.sample));
        for (row, mut target) in targets {
            if layout.rows.last() != Some(&(row as i64)) {
                layout.rows.push(row as i64);
            }
            target.row = layout.rows.len() - 1;
            layout.targets.push(target);
        }
        layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    fn a_shared_prompt_is_laid_out_once_and_predicts_every_first_token() {
        let samples =
            [sample(0, 0, &[1, 2], &[3, 4, 5]), sample(0, 1, &[1, 2], &[6]), sample(0, 2, &[1, 2], &[7, 8])];
        let plan = plan(&samples, 100);
        let layout = Layout::new(&samples, &plan[0]);
        assert_eq!(layout.ids, [1, 2, 3, 4, 7]);
        assert_eq!((layout.trees[0].prefix, layout.trees[0].branches.clone()), (2, vec![2, 1]));
        assert_eq!(layout.rows, [1, 2, 3, 4]);
        let pairs: Vec<(usize, u32)> = layout.targets.iter().map(|t| (t.row, t.token)).collect();
        assert_eq!(pairs, [(0, 3), (0, 6), (0, 7), (1, 4), (2, 5), (3, 8)]);
    }

    #[test]
    fn a_sample_alone_is_a_plain_sequence_without_its_last_token() {
        let samples = [sample(0, 0, &[1, 2], &[3, 4])];
        let layout = Layout::new(&samples, &plan(&samples, 100)[0]);
        assert_eq!(layout.ids, [1, 2, 3]);
        assert!(layout.trees[0].branches.is_empty() && layout.trees[0].prefix == 3);
    }

    #[test]
    fn samples_that_claim_one_group_but_differ_in_prompt_do_not_share_it() {
        let samples = [sample(0, 0, &[1, 2], &[3]), sample(0, 1, &[1, 9], &[3])];
        assert_eq!(plan(&samples, 100)[0].len(), 2);
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

    proptest! {
        #[test]
        fn for_every_batch_and_budget_each_trained_token_is_predicted_once_by_the_token_before_it(
            shapes in prop::collection::vec((0u32..4, 1usize..9), 1..24), budget in 1usize..60
        ) {
            let samples: Vec<TrainSample> = shapes.iter().enumerate().map(|(n, &(group, length))| {
                let prompt: Vec<u32> = (0..3 + group).map(|t| group * 10 + t).collect();
                let response: Vec<u32> = (0..length as u32).map(|t| 100 + n as u32 * 10 + t).collect();
                sample(group, n, &prompt, &response)
            }).collect();
            let mut seen = Vec::new();
            for shoots in plan(&samples, budget) {
                let layout = Layout::new(&samples, &shoots);
                let branches: usize = shoots.iter().map(|s| s.samples.len()).sum();
                prop_assert!(layout.ids.len() <= budget || branches == 1);
                for target in &layout.targets {
                    let sample = &samples[target.sample];
                    let row = layout.rows[target.row] as usize;
                    prop_assert_eq!(layout.ids[row], sample.tokens[target.position - 1]);
                    prop_assert_eq!(target.token, sample.tokens[target.position]);
                    seen.push((target.sample, target.position));
                }
            }
            seen.sort_unstable();
            let expected: Vec<(usize, usize)> = samples.iter().enumerate()
                .flat_map(|(n, s)| (s.prompt_len..s.tokens.len()).map(move |t| (n, t))).collect();
            prop_assert_eq!(seen, expected);
        }
    }
}
