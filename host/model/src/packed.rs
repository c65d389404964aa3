//! Token rows of several trees, one after another, without padding.
//!
//! A tree is a shared prefix (a prompt) and branches (its responses); each branch attends to the
//! prefix and to itself. So a prompt's rows are computed once for the whole group, and no row of
//! the matrix products is padding.

use crate::error::ModelError;
use crate::rope::Rope;
use std::cell::RefCell;
use tch::{Device, Kind, Tensor};

/// A shared prefix and its branches, as rows of a [`Packed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// First row.
    pub start: usize,
    /// Rows of the prefix, which attends to itself causally.
    pub prefix: usize,
    /// Rows of each branch, in order after the prefix.
    pub branches: Vec<usize>,
}

impl Tree {
    /// A plain sequence: a prefix without branches.
    pub fn sequence(start: usize, length: usize) -> Tree {
        Tree { start, prefix: length, branches: Vec::new() }
    }

    /// Rows of the whole tree.
    pub fn rows(&self) -> usize {
        self.prefix + self.branches.iter().sum::<usize>()
    }

    /// Rows of the longest branch.
    pub(crate) fn longest(&self) -> usize {
        self.branches.iter().copied().max().unwrap_or(0)
    }
}

/// Token rows of several trees. What depends only on positions (rotary tables, masks) is computed
/// at the first layer that needs it and shared by the others.
#[derive(Debug)]
pub struct Packed {
    /// Token ids, `[T]` i64.
    pub ids: Tensor,
    /// Position of every row in its own sequence, `[T]` i64: branches continue from their prefix.
    pub positions: Tensor,
    /// The trees, in order of their rows; together they cover every row once.
    pub trees: Vec<Tree>,
    cache: RefCell<Cache>,
}

/// What the layers of one model share; another model, or the same in another kind, replaces it.
#[derive(Debug, Default)]
struct Cache {
    tables: Option<(Rope, usize, Kind, Tensor, Tensor)>,
    /// By rows of prefix and longest branch.
    masks: Vec<(i64, i64, Tensor)>,
}

impl Packed {
    /// Packs `ids`, which hold the rows of `trees` one tree after another.
    ///
    /// # Errors
    /// When the trees do not cover the rows exactly, in order, or a tree has no prefix.
    pub fn new(ids: &[u32], trees: Vec<Tree>, device: Device) -> Result<Packed, ModelError> {
        let mut positions = Vec::with_capacity(ids.len());
        for (i, tree) in trees.iter().enumerate() {
            if tree.start != positions.len() {
                let reason = format!("tree {i} starts at row {}, expected {}", tree.start, positions.len());
                return Err(ModelError::Packed(reason));
            }
            if tree.prefix == 0 || tree.branches.contains(&0) {
                return Err(ModelError::Packed(format!("tree {i} has an empty prefix or branch")));
            }
            positions.extend(0..tree.prefix as i64);
            for &length in &tree.branches {
                positions.extend(tree.prefix as i64..(tree.prefix + length) as i64);
            }
        }
        if positions.len() != ids.len() || ids.is_empty() {
            let reason = format!("the trees have {} rows, the tokens are {}", positions.len(), ids.len());
            return Err(ModelError::Packed(reason));
        }
        let ids: Vec<i64> = ids.iter().map(|&id| i64::from(id)).collect();
        Ok(Packed {
            ids: Tensor::from_slice(&ids).to_device(device),
            positions: Tensor::from_slice(&positions).to_device(device),
            trees,
            cache: RefCell::default(),
        })
    }

    /// Packs plain sequences one after another.
    ///
    /// # Errors
    /// When there is no sequence, or an empty one.
    pub fn sequences<S: AsRef<[u32]>>(sequences: &[S], device: Device) -> Result<Packed, ModelError> {
        let mut ids = Vec::new();
        let mut trees = Vec::with_capacity(sequences.len());
        for sequence in sequences {
            trees.push(Tree::sequence(ids.len(), sequence.as_ref().len()));
            ids.extend_from_slice(sequence.as_ref());
        }
        Packed::new(&ids, trees, device)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.trees.last().map_or(0, |t| t.start + t.rows())
    }

    /// Rotary tables, `[T, 1, head_dim]` each.
    pub(crate) fn tables(&self, rope: &Rope, head_dim: usize, kind: Kind) -> (Tensor, Tensor) {
        let mut cache = self.cache.borrow_mut();
        if let Some((r, d, k, cos, sin)) = &cache.tables
            && (r, *d, *k) == (rope, head_dim, kind)
        {
            return (cos.shallow_clone(), sin.shallow_clone());
        }
        let _guard = tch::no_grad_guard();
        let (cos, sin) = rope.tables(head_dim, &self.positions, kind);
        cache.tables = Some((rope.clone(), head_dim, kind, cos.shallow_clone(), sin.shallow_clone()));
        (cos, sin)
    }

    /// What rows of a branch may see, to be added to their scores: `[longest, prefix + longest]` with
    /// 0 or -inf.
    ///
    /// Shorter branches need no mask of their own: their padding comes last, and causality hides it.
    pub(crate) fn mask(&self, prefix: i64, longest: i64, kind: Kind) -> Tensor {
        let mut cache = self.cache.borrow_mut();
        cache.masks.retain(|(.., mask)| mask.kind() == kind);
        if let Some((.., mask)) = cache.masks.iter().find(|(p, l, _)| (*p, *l) == (prefix, longest)) {
            return mask.shallow_clone();
        }
        let _guard = tch::no_grad_guard();
        let future = Tensor::full([longest, prefix + longest], f64::NEG_INFINITY, (kind, self.ids.device()));
        let mask = future.triu(prefix + 1);
        cache.masks.push((prefix, longest, mask.shallow_clone()));
        mask
    }
}
