//! The prompts of all waiting and running sequences as a tree, so that what several prompts begin with is held once.
//!
//! A stretch is a run of tokens between two forks; the prompts that have it count as its users. Forks lie
//! at whole blocks of keys and values, so that a stretch is split without copying any. Nothing here knows
//! budgets or tensors.

use std::collections::HashMap;
use std::sync::Arc;

/// A stretch, under one version of the weights.
pub(crate) type StretchId = u64;

/// Tokens that every prompt has which has any of them, or which end a prompt.
pub(crate) struct Stretch {
    /// What comes before; absent at the beginning of prompts.
    pub parent: Option<StretchId>,
    /// Whole blocks, unless a prompt ends here.
    pub tokens: Arc<[u32]>,
    /// Waiting sequences whose prompt has it.
    pub waiting: usize,
    /// Running sequences whose prompt has it.
    pub running: usize,
    /// Its keys and values are in memory, or are computed before the next decode step.
    pub resident: bool,
}

/// The first `tokens` of the stretch `from` are the stretch `first` now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    pub from: StretchId,
    pub first: StretchId,
    pub tokens: usize,
}

pub(crate) struct PrefixTree {
    /// Positions of a block.
    block: usize,
    stretches: HashMap<StretchId, Stretch>,
    /// The stretch that goes on from another one, or from the beginning, with these tokens: its first block, or all of it
    /// where it is shorter.
    forks: HashMap<(Option<StretchId>, Arc<[u32]>), StretchId>,
    next: StretchId,
}

impl PrefixTree {
    pub fn new(block: usize) -> Self {
        PrefixTree { block, stretches: HashMap::new(), forks: HashMap::new(), next: 0 }
    }

    /// The stretch that `tokens` end with, none where there are no tokens. What the tree lacks is added without users; where
    /// `tokens` leave a stretch half-way, it is split.
    pub fn insert(&mut self, tokens: &[u32]) -> (Option<StretchId>, Option<Split>) {
        let (mut last, mut rest, mut split) = (None, tokens, None);
        while !rest.is_empty() {
            let Some(&found) = self.forks.get(&(last, self.key(rest))) else {
                last = Some(self.add(last, rest.into()));
                break;
            };
            let stretch = &self.stretches[&found].tokens;
            let (length, common) = (stretch.len(), self.common(stretch, rest));
            last = Some(found);
            if common < length {
                let first = self.split(found, common);
                split = Some(Split { from: found, first, tokens: common });
                last = Some(first);
            }
            rest = &rest[common..];
        }
        (last, split)
    }

    /// How many tokens of a stretch a prompt can use that goes on with `rest`, at least one block of which agrees: all of
    /// them, or whole blocks.
    fn common(&self, stretch: &[u32], rest: &[u32]) -> usize {
        let equal = stretch.iter().zip(rest).take_while(|(a, b)| a == b).count();
        let ends_here = equal == stretch.len() && equal == rest.len();
        if ends_here { equal } else { equal - equal % self.block }
    }

    fn key(&self, tokens: &[u32]) -> Arc<[u32]> {
        tokens[..tokens.len().min(self.block)].into()
    }

    fn add(&mut self, parent: Option<StretchId>, tokens: Arc<[u32]>) -> StretchId {
        let id = self.next;
        self.next += 1;
        self.forks.insert((parent, self.key(&tokens)), id);
        self.stretches.insert(id, Stretch { parent, tokens, waiting: 0, running: 0, resident: false });
        id
    }

    /// Makes the first `at` tokens of `from` a stretch of their own. The rest keeps the id, so whoever ends there still does.
    fn split(&mut self, from: StretchId, at: usize) -> StretchId {
        let old = &self.stretches[&from];
        let (parent, tokens) = (old.parent, old.tokens.clone());
        let (waiting, running, resident) = (old.waiting, old.running, old.resident);
        let first = self.add(parent, tokens[..at].into());
        if let Some(stretch) = self.stretches.get_mut(&first) {
            (stretch.waiting, stretch.running, stretch.resident) = (waiting, running, resident);
        }
        if let Some(stretch) = self.stretches.get_mut(&from) {
            (stretch.parent, stretch.tokens) = (Some(first), tokens[at..].into());
        }
        self.forks.insert((Some(first), self.key(&tokens[at..])), from);
        first
    }

    pub fn get(&self, id: StretchId) -> Option<&Stretch> {
        self.stretches.get(&id)
    }

    pub fn get_mut(&mut self, id: StretchId) -> Option<&mut Stretch> {
        self.stretches.get_mut(&id)
    }

    pub fn ids(&self) -> impl Iterator<Item = StretchId> {
        self.stretches.keys().copied()
    }

    /// From the beginning of the prompt to `last`.
    pub fn path(&self, last: Option<StretchId>) -> Vec<StretchId> {
        let parent = |id: &StretchId| self.stretches.get(id).and_then(|s| s.parent);
        let mut path: Vec<StretchId> = std::iter::successors(last, parent).collect();
        path.reverse();
        path
    }

    /// Blocks of keys and values that a stretch takes.
    pub fn blocks(&self, id: StretchId) -> usize {
        self.stretches.get(&id).map_or(0, |s| s.tokens.len().div_ceil(self.block))
    }

    /// Removes a stretch that has no users, and so none after it.
    pub fn remove(&mut self, id: StretchId) -> Option<Stretch> {
        let stretch = self.stretches.remove(&id)?;
        let fork = (stretch.parent, self.key(&stretch.tokens));
        if self.forks.get(&fork) == Some(&id) {
            self.forks.remove(&fork);
        }
        Some(stretch)
    }

    /// No later prompt finds what is here now; it stays until it is removed.
    pub fn forget(&mut self) {
        self.forks.clear();
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.stretches.is_empty() && self.forks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The tokens of the stretches up to `last`.
    fn spelt(tree: &PrefixTree, last: Option<StretchId>) -> Vec<Vec<u32>> {
        tree.path(last).iter().map(|id| tree.stretches[id].tokens.to_vec()).collect()
    }

    #[test]
    fn prompts_share_the_whole_blocks_they_begin_with() {
        let mut tree = PrefixTree::new(4);
        let (a, split) = tree.insert(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!((spelt(&tree, a).len(), split), (1, None));
        // Six tokens in common are one block and two tokens of the next.
        let (b, split) = tree.insert(&[1, 2, 3, 4, 5, 6, 0, 0, 0, 0]);
        let trunk = tree.path(b)[0];
        assert_eq!(split, Some(Split { from: a.unwrap(), first: trunk, tokens: 4 }));
        assert_eq!(spelt(&tree, a), [vec![1, 2, 3, 4], vec![5, 6, 7, 8, 9]]);
        assert_eq!(spelt(&tree, b), [vec![1, 2, 3, 4], vec![5, 6, 0, 0, 0, 0]]);
        assert_eq!(tree.insert(&[1, 2, 3, 4]), (Some(trunk), None));
        assert_eq!(tree.insert(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), (a, None));
        // Less than a block is not shared, but for the same prompt again.
        let (c, _) = tree.insert(&[1, 2, 3]);
        assert_eq!(spelt(&tree, c), [vec![1, 2, 3]]);
        assert_eq!(tree.insert(&[1, 2, 3]), (c, None));
        assert_eq!(tree.insert(&[]), (None, None));
    }

    #[test]
    fn what_is_forgotten_is_found_by_no_prompt_and_goes_in_any_order() {
        let mut tree = PrefixTree::new(2);
        let (old, _) = tree.insert(&[1, 2, 3]);
        tree.forget();
        let (new, _) = tree.insert(&[1, 2, 3]);
        assert_ne!(old, new);
        tree.remove(old.unwrap());
        assert_eq!(tree.insert(&[1, 2, 3]), (new, None));
        tree.remove(new.unwrap());
        assert!(tree.is_empty());
    }

    proptest! {
        #[test]
        fn for_every_set_of_prompts_the_path_spells_the_prompt_and_no_block_is_held_twice(
            prompts in prop::collection::vec(prop::collection::vec(0u32..2, 0..14), 1..12),
        ) {
            let block = 3;
            let mut tree = PrefixTree::new(block);
            let last: Vec<_> = prompts.iter().map(|p| tree.insert(p).0).collect();
            let mut blocks = std::collections::HashSet::new();
            for (prompt, last) in prompts.iter().zip(last) {
                let spelt = spelt(&tree, last);
                prop_assert_eq!(&spelt.concat(), prompt);
                prop_assert!(spelt.iter().rev().skip(1).all(|s| s.len() % block == 0));
                blocks.extend((0..prompt.len().div_ceil(block)).map(|i| &prompt[..prompt.len().min((i + 1) * block)]));
            }
            let held: usize = tree.ids().map(|id| tree.blocks(id)).sum();
            prop_assert_eq!(held, blocks.len());
        }
    }
}
