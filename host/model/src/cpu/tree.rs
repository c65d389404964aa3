//! Keys and values of a [`Packed`] tree of rows, one layer at a time.

use super::Cache;
use crate::packed::Packed;
use whet_native::Number;
use whet_native::attention::{BLOCK, Block, KvShape, Span};

pub(super) struct TreeCache<T> {
    shape: KvShape,
    nodes: Vec<Node<T>>,
    /// By row: its node, and its place among that node's rows.
    rows: Vec<(usize, usize)>,
}

struct Node<T> {
    /// The nodes before it in its sequence, from the root down.
    above: Vec<usize>,
    rows: usize,
    blocks: Vec<Block<T>>,
}

impl<T: Number> TreeCache<T> {
    pub fn new(packed: &Packed, kv_heads: usize, head_dim: usize) -> Self {
        let shape = KvShape { layers: 1, kv_heads, head_dim };
        let block = || -> Block<T> { vec![T::default(); shape.block_len()].into() };
        let node = |&rows: &i64| Node {
            above: Vec::new(),
            rows: rows as usize,
            blocks: (0..(rows as usize).div_ceil(BLOCK)).map(|_| block()).collect(),
        };
        let mut nodes: Vec<Node<T>> = packed.lengths.iter().map(node).collect();
        for siblings in &packed.siblings {
            for &node in &siblings.nodes {
                nodes[node].above.clone_from(&siblings.above);
            }
        }
        let rows = nodes.iter().enumerate();
        let rows = rows.flat_map(|(index, node)| (0..node.rows).map(move |own| (index, own))).collect();
        TreeCache { shape, nodes, rows }
    }
}

impl<T: Number> Cache<T> for TreeCache<T> {
    fn shape(&self, _layer: usize) -> (KvShape, usize) {
        (self.shape, 0)
    }

    fn write(&mut self, _layer: usize, row: usize, keys: &[T], values: &[T]) {
        let (node, own) = self.rows[row];
        let block = &mut self.nodes[node].blocks[own / BLOCK];
        self.shape.write(block, 0, own % BLOCK, keys, values);
    }

    fn spans<'a>(&'a self, row: usize, spans: &mut Vec<Span<'a, T>>) {
        let (node, own) = self.rows[row];
        let node = &self.nodes[node];
        let whole = |&above: &usize| Span { blocks: &self.nodes[above].blocks, len: self.nodes[above].rows };
        spans.extend(node.above.iter().map(whole));
        spans.push(Span { blocks: &node.blocks, len: own + 1 });
    }
}
