//! How a batch is cut into micro-batches, and a micro-batch laid out in rows.
//!
//! Sequences that begin alike, be it with a system prompt, a prompt or a part of a response, share the
//! rows of that beginning, which a micro-batch computes once. Nothing is padded, and nothing behind
//! the last trained token is computed.

use crate::sample::TrainSample;
use std::ops::Range;
use whet_model::Node;

/// A common beginning becomes rows of its own where that spares at least so many; below, what another
/// piece costs in attention is more.
const WORTH: usize = 16;

/// A run of tokens that several samples share, or the rest that one has alone.
#[derive(Debug)]
struct Stem {
    /// The run that this one continues.
    parent: Option<usize>,
    /// A sample that has these tokens.
    sample: usize,
    /// Where it has them.
    tokens: Range<usize>,
}

/// The sequences of a batch, joined where they begin alike.
///
/// How a sample is laid out, hence how its sums round, follows from the batch alone, not from the cut.
#[derive(Debug)]
pub struct Forest {
    /// Parents before their children.
    stems: Vec<Stem>,
    /// Sample and its last stem, in the order of the tokens, so that what is alike is adjacent.
    samples: Vec<(usize, usize)>,
}

impl Forest {
    /// Joins the samples `members`, each of which has a trained token.
    pub fn new(samples: &[TrainSample], members: &[usize]) -> Forest {
        let mut order = members.to_vec();
        order.sort_by_key(|&index| (samples[index].computed(), index));
        let sequence = |at: usize| samples[order[at]].computed();
        let mut stems: Vec<Stem> = Vec::new();
        let mut tips = vec![0; order.len()];
        // Samples that begin with the same tokens, how many of these have stems, and the last of these.
        let mut open: Vec<(Range<usize>, usize, Option<usize>)> = vec![(0..order.len(), 0, None)];
        while let Some((range, laid, parent)) = open.pop() {
            if range.is_empty() {
                continue;
            }
            let first = sequence(range.start);
            let mut grow = |until: usize| {
                stems.push(Stem { parent, sample: order[range.start], tokens: laid..until });
                stems.len() - 1
            };
            if range.len() == 1 {
                tips[range.start] = match parent {
                    Some(parent) if first.len() == laid => parent,
                    _ => grow(first.len()),
                };
                continue;
            }
            // In order, so what the outermost share all share.
            let shared = common(first, sequence(range.end - 1));
            let next = |at: usize| sequence(at).get(shared);
            let mut parts: Vec<Range<usize>> = Vec::new();
            for at in range.clone() {
                match parts.last_mut() {
                    Some(part) if next(at).is_some() && next(at) == next(part.start) => part.end = at + 1,
                    _ => parts.push(at..at + 1),
                }
            }
            let worth = (parts.len() - 1) * (shared - laid) >= WORTH;
            let (laid, parent) = if worth { (shared, Some(grow(shared))) } else { (laid, parent) };
            open.extend(parts.into_iter().map(|part| (part, laid, parent)));
        }
        Forest { stems, samples: order.into_iter().zip(tips).collect() }
    }

    /// Cuts the batch into micro-batches of at most `budget` token rows each, unless one sample alone has
    /// more. Each is a run of the forest's samples; what a cut parts is computed in both.
    ///
    /// Groups stay together where they fit.
    pub fn cut(&self, samples: &[TrainSample], budget: usize) -> Vec<Range<usize>> {
        let length = |stem: usize| self.stems[stem].tokens.len();
        let total: usize = (0..self.stems.len()).map(length).sum();
        let count = total.div_ceil(budget.max(1)).max(1);
        // Equal parts rather than full ones and a rest: the largest decides how much memory is needed.
        let target = total.div_ceil(count);
        let mut parts = Vec::new();
        let (mut start, mut rows) = (0, 0);
        // The start of the last part that has a stem.
        let mut holder: Vec<Option<usize>> = vec![None; self.stems.len()];
        for (at, &(sample, tip)) in self.samples.iter().enumerate() {
            if at > start {
                let missing = self.path(tip).filter(|&stem| holder[stem] != Some(start));
                let full = rows + missing.map(length).sum::<usize>() > budget;
                let before = self.samples[at - 1].0;
                let new_group = samples[sample].group != samples[before].group;
                if full || (rows >= target && new_group) {
                    parts.push(start..at);
                    (start, rows) = (at, 0);
                }
            }
            for stem in self.path(tip) {
                if holder[stem] != Some(start) {
                    holder[stem] = Some(start);
                    rows += length(stem);
                }
            }
        }
        if start < self.samples.len() {
            parts.push(start..self.samples.len());
        }
        parts
    }

    /// A stem and those below it, down to the root.
    fn path(&self, tip: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(tip), |&stem| self.stems[stem].parent)
    }
}

/// How many tokens both begin with.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
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
#[derive(Debug, Default)]
pub struct Layout {
    /// Token of each row.
    pub ids: Vec<u32>,
    /// The nodes of the rows.
    pub nodes: Vec<Node>,
    /// The rows that predict something, ascending.
    pub rows: Vec<i64>,
    /// What they predict, ascending by row.
    pub targets: Vec<Target>,
}

impl Layout {
    /// Lays out one part of [`Forest::cut`].
    pub fn new(samples: &[TrainSample], forest: &Forest, part: Range<usize>) -> Layout {
        let mut layout = Layout::default();
        // Node and first row of each stem that is laid out.
        let mut places: Vec<Option<(usize, usize)>> = vec![None; forest.stems.len()];
        // (row among all, target); rows are numbered among the predicting ones afterwards.
        let mut targets: Vec<(usize, Target)> = Vec::new();
        for &(index, tip) in &forest.samples[part] {
            let mut path: Vec<usize> = forest.path(tip).collect();
            path.reverse();
            let mut rows: Vec<usize> = Vec::new();
            for stem in path {
                let Stem { parent, sample, tokens } = &forest.stems[stem];
                let (_, start) = match places[stem] {
                    Some(place) => place,
                    None => {
                        let place = (layout.nodes.len(), layout.ids.len());
                        let parent = parent.and_then(|parent| places[parent]).map(|(node, _)| node);
                        layout.nodes.push(Node { parent, length: tokens.len() });
                        layout.ids.extend(&samples[*sample].tokens[tokens.clone()]);
                        *places[stem].insert(place)
                    }
                };
                rows.extend(start..start + tokens.len());
            }
            let sample = &samples[index];
            for position in (0..sample.tokens.len()).filter(|&t| sample.loss_mask[t]) {
                let target = Target { row: 0, token: sample.tokens[position], sample: index, position };
                targets.push((rows[position - 1], target));
            }
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
    use whet_trajectory::{GroupId, SampleId};

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

    fn layouts(samples: &[TrainSample], budget: usize) -> Vec<Layout> {
        let forest = Forest::new(samples, &(0..samples.len()).collect::<Vec<usize>>());
        let parts = forest.cut(samples, budget);
        parts.into_iter().map(|part| Layout::new(samples, &forest, part)).collect()
    }

    fn node(parent: impl Into<Option<usize>>, length: usize) -> Node {
        Node { parent: parent.into(), length }
    }

    #[test]
    fn a_shared_prompt_is_laid_out_once_and_predicts_every_first_token() {
        let prompt: Vec<u32> = (0..20).collect();
        let samples = [
            sample(0, 0, &prompt, &[33, 34, 35]),
            sample(0, 1, &prompt, &[36]),
            sample(0, 2, &prompt, &[37, 38]),
        ];
        let layout = &layouts(&samples, 100)[0];
        assert_eq!(layout.ids, [&prompt[..], &[33, 34, 37]].concat());
        assert_eq!(layout.nodes, [node(None, 20), node(0, 2), node(0, 1)]);
        assert_eq!(layout.rows, [19, 20, 21, 22]);
        let pairs: Vec<(usize, u32)> = layout.targets.iter().map(|t| (t.row, t.token)).collect();
        assert_eq!(pairs, [(0, 33), (0, 36), (0, 37), (1, 34), (2, 35), (3, 38)]);
    }

    #[test]
    fn a_system_prompt_is_laid_out_once_for_all_groups_of_a_micro_batch() {
        let system: Vec<u32> = (0..40).collect();
        let prompt = |group: u32| [&system[..], &[100 + group; 17]].concat();
        let samples: Vec<TrainSample> = (0..2)
            .flat_map(|g| [50, 60].map(|token| sample(g, token as usize, &prompt(g), &[token, 1])))
            .collect();
        let layout = &layouts(&samples, 1000)[0];
        let prompts = [node(0, 17), node(1, 1), node(1, 1)];
        assert_eq!(layout.nodes[0], node(None, 40));
        assert_eq!(layout.nodes[1..4], prompts);
        assert_eq!(layout.nodes[4..], [node(0, 17), node(4, 1), node(4, 1)]);
        // Cut, each part has the system prompt.
        let rows: Vec<usize> = layouts(&samples, 60).iter().map(|l| l.ids.len()).collect();
        assert_eq!(rows, [40 + 17 + 1 + 1, 40 + 17 + 1 + 1]);
    }

    #[test]
    fn equal_samples_share_all_rows() {
        let prompt: Vec<u32> = (0..20).collect();
        let samples = [0, 1, 2].map(|n| sample(0, n, &prompt, &[30, 31]));
        let layout = &layouts(&samples, 100)[0];
        assert_eq!((layout.ids.len(), layout.targets.len()), (21, 6));
    }

    #[test]
    fn a_sample_alone_is_a_plain_sequence_without_its_last_token() {
        let layout = &layouts(&[sample(0, 0, &[1, 2], &[3, 4])], 100)[0];
        assert_eq!((&layout.ids[..], &layout.nodes[..]), (&[1, 2, 3][..], &[node(None, 3)][..]));
    }

    #[test]
    fn a_beginning_of_few_tokens_is_not_worth_a_node() {
        let layout = &layouts(&[sample(0, 0, &[1, 2], &[3, 4]), sample(0, 1, &[1, 2], &[5, 4])], 100)[0];
        assert_eq!(layout.nodes, [node(None, 3), node(None, 3)]);
    }

    proptest! {
        #[test]
        fn for_every_batch_and_budget_each_trained_token_is_predicted_once_by_the_tokens_before_it(
            shapes in prop::collection::vec((0u32..4, 1usize..30, 0u32..3), 1..24),
            system in 0u32..30, budget in 1usize..200
        ) {
            let samples: Vec<TrainSample> = shapes.iter().enumerate().map(|(n, &(group, length, kind))| {
                let prompt: Vec<u32> = (0..system).chain((0..3 + 5 * group).map(|t| group * 30 + t)).collect();
                let response: Vec<u32> = (0..length as u32).map(|t| 200 + kind.min(t / 18) * 10 + t).collect();
                sample(group, n, &prompt, &response)
            }).collect();
            let mut seen = Vec::new();
            for layout in layouts(&samples, budget) {
                let owners: std::collections::BTreeSet<usize> = layout.targets.iter().map(|t| t.sample).collect();
                prop_assert!(layout.ids.len() <= budget || owners.len() == 1);
                let mut starts = Vec::new();
                let mut node_of = Vec::new();
                for (index, node) in layout.nodes.iter().enumerate() {
                    starts.push(node_of.len());
                    node_of.extend(vec![index; node.length]);
                }
                prop_assert_eq!(node_of.len(), layout.ids.len());
                for target in &layout.targets {
                    // Up from the predicting row, its sequence is what the sample has before the token.
                    let row = layout.rows[target.row] as usize;
                    let (mut sequence, mut node, mut end) = (Vec::new(), Some(node_of[row]), row + 1);
                    while let Some(index) = node {
                        sequence.splice(0..0, layout.ids[starts[index]..end].iter().copied());
                        node = layout.nodes[index].parent;
                        end = node.map_or(0, |parent| starts[parent] + layout.nodes[parent].length);
                    }
                    let sample = &samples[target.sample];
                    prop_assert_eq!(&sequence[..], &sample.tokens[..target.position]);
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
