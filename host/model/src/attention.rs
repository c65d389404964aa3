//! Attention over [`Packed`] rows: siblings together, over the nodes above them and themselves.
//!
//! Only siblings are ever padded, to the longest of them.

use crate::packed::{Packed, Siblings};
use tch::{Kind, Tensor};

/// Causal attention of every node to those above it and to itself.
///
/// * `q`: `[T, heads, d]`, `k` and `v`: `[T, kv_heads, d]`, positions already applied
/// * returns `[T, heads * d]`
pub(crate) fn attention(q: &Tensor, k: &Tensor, v: &Tensor, packed: &Packed) -> Tensor {
    // One split and one concatenation for all nodes: backward is then one copy, not one per node.
    let [q, k, v] = [q, k, v].map(|t| t.split_with_sizes(&packed.lengths, 0));
    let mut outputs: Vec<(usize, Tensor)> = Vec::with_capacity(packed.lengths.len());
    for siblings in &packed.siblings {
        let (before, rows) = (siblings.before as i64, siblings.longest() as i64);
        let queries = side_by_side(&q, siblings);
        let [keys, values] = [&k, &v].map(|t| with_above(t, siblings));
        let out = if composed(&queries, rows, before + rows) {
            by_products(&queries, &keys, &values, &packed.mask(before, rows, wide(queries.kind())))
        } else {
            let mask = (before > 0).then(|| packed.mask(before, rows, queries.kind()));
            by_library(&queries, &keys, &values, mask.as_ref())
        };
        outputs.extend(siblings.nodes.iter().copied().zip(apart(out, siblings)));
    }
    if outputs.len() == 1 {
        return outputs.remove(0).1;
    }
    outputs.sort_by_key(|(node, _)| *node);
    Tensor::cat(&outputs.iter().map(|(_, out)| out).collect::<Vec<_>>(), 0)
}

/// The siblings' rows, padded at the end: `[B, L, heads, d]`.
fn side_by_side(nodes: &[Tensor], siblings: &Siblings) -> Tensor {
    if let [only] = siblings.nodes[..] {
        return nodes[only].unsqueeze(0);
    }
    let longest = siblings.longest() as i64;
    let first = &nodes[siblings.nodes[0]];
    let size = first.size();
    let zeros = Tensor::zeros([longest, size[1], size[2]], (first.kind(), first.device()));
    let mut padded = Vec::with_capacity(2 * siblings.nodes.len());
    for (&node, &length) in siblings.nodes.iter().zip(&siblings.lengths) {
        padded.push(nodes[node].shallow_clone());
        if (length as i64) < longest {
            padded.push(zeros.narrow(0, 0, longest - length as i64));
        }
    }
    Tensor::cat(&padded, 0).view([siblings.nodes.len() as i64, longest, size[1], size[2]])
}

/// The keys (or values) of the nodes above before each sibling's own: `[B, kv_heads, P + L, d]`, contiguous.
fn with_above(nodes: &[Tensor], siblings: &Siblings) -> Tensor {
    let own = side_by_side(nodes, siblings).transpose(1, 2);
    if siblings.above.is_empty() {
        return own.contiguous();
    }
    let count = siblings.nodes.len() as i64;
    let spread = |&node: &usize| nodes[node].transpose(0, 1).unsqueeze(0).expand([count, -1, -1, -1], false);
    let mut parts: Vec<Tensor> = siblings.above.iter().map(spread).collect();
    parts.push(own);
    Tensor::cat(&parts, 2)
}

/// The rows of every sibling out of `[B * L, width]`, padding dropped.
fn apart(out: Tensor, siblings: &Siblings) -> Vec<Tensor> {
    if siblings.nodes.len() == 1 {
        return vec![out];
    }
    let longest = siblings.longest();
    let rows = out.split(longest as i64, 0).into_iter().zip(&siblings.lengths);
    rows.map(|(rows, &length)| rows.narrow(0, 0, length as i64)).collect()
}

/// Whether products and softmax are better than libtorch's own attention.
///
/// On CPUs they are: in bf16, for nine heads of 64 and eight branches of 128 over a prefix of 128,
/// forward and backward took 25 ms instead of 62, and log-probs were as near to f32. In f32 both take
/// the same time, but gradients of one batch in different cuts differed by up to 1.2e-6 instead of
/// 4.5e-7. The full scores must be small enough to be kept for backward, though.
fn composed(q: &Tensor, rows: i64, keys: i64) -> bool {
    !q.device().is_cuda() && rows * keys <= 1 << 20
}

/// Attention of `q: [B, L, heads, d]` over `k, v: [B, kv_heads, K, d]`, to `[B * L, heads * d]`;
/// without a mask it is causal.
fn by_library(q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>) -> Tensor {
    let [b, l, heads, d] = size4(q);
    let (q, grouped) = (q.transpose(1, 2), heads != k.size()[1]);
    let out = Tensor::scaled_dot_product_attention(&q, k, v, mask, 0.0, mask.is_none(), None, grouped);
    out.transpose(1, 2).reshape([b * l, heads * d])
}

/// As [`by_library`], from matrix products and a softmax that is computed in at least f32; `k` and `v`
/// are contiguous.
fn by_products(q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor) -> Tensor {
    let [b, l, heads, d] = size4(q);
    let [_, kv_heads, keys, _] = size4(k);
    let group = heads / kv_heads;
    let kind = q.kind();
    let [q, k, v] = [q, k, v].map(|t| t.to_kind(wide(kind)));
    let q = q.view([b, l, kv_heads, group, d]).permute([0, 2, 3, 1, 4]).reshape([b * kv_heads, group * l, d]);
    let k = k.view([b * kv_heads, keys, d]);
    let v = v.view([b * kv_heads, keys, d]);
    let mask = mask.unsqueeze(0).expand([group, -1, -1], false).reshape([1, group * l, keys]);
    let mask = mask.expand([b * kv_heads, -1, -1], false);
    let scores = mask.baddbmm(&q, &k.transpose(1, 2), 1.0, (d as f64).powf(-0.5));
    let out = scores.softmax(-1, None::<Kind>).bmm(&v).to_kind(kind);
    out.view([b, kv_heads, group, l, d]).permute([0, 3, 1, 2, 4]).reshape([b * l, heads * d])
}

/// What sums are kept in.
fn wide(kind: Kind) -> Kind {
    if kind == Kind::Double { Kind::Double } else { Kind::Float }
}

fn size4(t: &Tensor) -> [i64; 4] {
    let size = t.size();
    [size[0], size[1], size[2], size[3]]
}
