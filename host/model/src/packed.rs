//! Token rows of sequences that begin alike, each shared beginning once, without padding.
//!
//! Rows lie in nodes. A node continues its parent, so a sequence is a path from a root: a system
//! prompt, then one of several prompts, then one of its responses. A row attends to the nodes above
//! its own and, causally, to its own. So what sequences share is computed once for all of them, and
//! no row of the matrix products is padding.

use crate::error::ModelError;
use crate::rope::Rope;
use std::cell::RefCell;
use tch::{Device, Kind, Tensor};

/// A run of rows that belong together, in a [`Packed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Index of the node that this one continues; a root has none.
    pub parent: Option<usize>,
    /// Rows, at least one.
    pub length: usize,
}

/// Nodes that continue the same one, and so see the same rows before their own. They go through
/// attention together.
#[derive(Debug)]
pub(crate) struct Siblings {
    /// The nodes above, from the root down to the parent.
    pub above: Vec<usize>,
    /// Rows of these.
    pub before: usize,
    /// The siblings, ascending.
    pub nodes: Vec<usize>,
    /// Rows of each.
    pub lengths: Vec<usize>,
}

impl Siblings {
    /// Rows of the longest sibling.
    pub fn longest(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(0)
    }
}

/// Token rows of a forest of nodes. What depends only on positions (rotary tables, masks) is computed
/// at the first layer that needs it and shared by the others.
#[derive(Debug)]
pub struct Packed {
    /// Token ids, `[T]` i64.
    pub ids: Tensor,
    /// Position of every row in its sequence, `[T]` i64: a node continues from its parent.
    pub positions: Tensor,
    /// Rows of each node, which lie one node after another.
    pub(crate) lengths: Vec<i64>,
    /// Every node once; each root is alone.
    pub(crate) siblings: Vec<Siblings>,
    cache: RefCell<Cache>,
}

/// What the layers of one model share; another model, or the same in another kind, replaces it.
#[derive(Debug, Default)]
struct Cache {
    tables: Option<(Rope, usize, Kind, Tensor, Tensor)>,
    /// By rows before and own rows.
    masks: Vec<(i64, i64, Tensor)>,
}

impl Packed {
    /// Packs `ids`, which hold the rows of `nodes` one node after another.
    ///
    /// # Errors
    /// When the nodes do not cover the rows exactly, one is empty, or one comes before its parent.
    pub fn new(ids: &[u32], nodes: &[Node], device: Device) -> Result<Packed, ModelError> {
        let mut positions: Vec<i64> = Vec::with_capacity(ids.len());
        let mut siblings: Vec<Siblings> = Vec::new();
        // By node: rows up to its end, and where its children are in `siblings`.
        let mut ends: Vec<usize> = Vec::with_capacity(nodes.len());
        let mut children: Vec<Option<usize>> = vec![None; nodes.len()];
        for (i, &Node { parent, length }) in nodes.iter().enumerate() {
            if length == 0 {
                return Err(ModelError::Packed(format!("node {i} has no rows")));
            }
            if let Some(parent) = parent
                && parent >= i
            {
                return Err(ModelError::Packed(format!("node {i} comes before its parent, node {parent}")));
            }
            let before = parent.map_or(0, |parent| ends[parent]);
            let place = match parent.and_then(|parent| children[parent]) {
                Some(place) => place,
                None => {
                    let mut above: Vec<usize> =
                        std::iter::successors(parent, |&node| nodes[node].parent).collect();
                    above.reverse();
                    siblings.push(Siblings { above, before, nodes: Vec::new(), lengths: Vec::new() });
                    siblings.len() - 1
                }
            };
            if let Some(parent) = parent {
                children[parent] = Some(place);
            }
            siblings[place].nodes.push(i);
            siblings[place].lengths.push(length);
            ends.push(before + length);
            positions.extend(before as i64..(before + length) as i64);
        }
        if positions.len() != ids.len() || ids.is_empty() {
            let reason = format!("the nodes have {} rows, the tokens are {}", positions.len(), ids.len());
            return Err(ModelError::Packed(reason));
        }
        let ids: Vec<i64> = ids.iter().map(|&id| i64::from(id)).collect();
        Ok(Packed {
            ids: Tensor::from_slice(&ids).to_device(device),
            positions: Tensor::from_slice(&positions).to_device(device),
            lengths: nodes.iter().map(|node| node.length as i64).collect(),
            siblings,
            cache: RefCell::default(),
        })
    }

    /// Packs plain sequences one after another.
    ///
    /// # Errors
    /// When there is no sequence, or an empty one.
    pub fn sequences<S: AsRef<[u32]>>(sequences: &[S], device: Device) -> Result<Packed, ModelError> {
        let ids: Vec<u32> = sequences.iter().flat_map(|s| s.as_ref()).copied().collect();
        let root = |s: &S| Node { parent: None, length: s.as_ref().len() };
        Packed::new(&ids, &sequences.iter().map(root).collect::<Vec<Node>>(), device)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.lengths.iter().sum::<i64>() as usize
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

    /// What the rows of siblings may see, to be added to their scores: `[rows, before + rows]` with 0 or
    /// -inf.
    ///
    /// Shorter siblings need no mask of their own: their padding comes last, and causality hides it.
    pub(crate) fn mask(&self, before: i64, rows: i64, kind: Kind) -> Tensor {
        let mut cache = self.cache.borrow_mut();
        cache.masks.retain(|(.., mask)| mask.kind() == kind);
        if let Some((.., mask)) = cache.masks.iter().find(|(b, r, _)| (*b, *r) == (before, rows)) {
            return mask.shallow_clone();
        }
        let _guard = tch::no_grad_guard();
        let future = Tensor::full([rows, before + rows], f64::NEG_INFINITY, (kind, self.ids.device()));
        let mask = future.triu(before + 1);
        cache.masks.push((before, rows, mask.shallow_clone()));
        mask
    }
}
