//! Attention over [`Packed`] rows: every tree on its own, every branch over its prefix and itself.
//!
//! Only the inside of one tree's branches is ever padded, to its longest branch.

use crate::packed::{Packed, Tree};
use tch::{Kind, Tensor};

/// Causal attention of every tree.
///
/// * `q`: `[T, heads, d]`, `k` and `v`: `[T, kv_heads, d]`, positions already applied
/// * returns `[T, heads * d]`
pub(crate) fn attention(q: &Tensor, k: &Tensor, v: &Tensor, packed: &Packed) -> Tensor {
    let pieces: Vec<i64> = packed
        .trees
        .iter()
        .flat_map(|t| std::iter::once(t.prefix).chain(t.branches.iter().copied()))
        .map(|n| n as i64)
        .collect();
    // One split and one concatenation for all trees: backward is then one copy, not one per piece.
    let [q, k, v] = [q, k, v].map(|t| t.split_with_sizes(&pieces, 0));
    let mut outputs = Vec::with_capacity(pieces.len());
    let mut piece = 0;
    for tree in &packed.trees {
        let (prefix_k, prefix_v) = (&k[piece], &v[piece]);
        outputs.push(sequence(&q[piece], prefix_k, prefix_v, packed));
        let own = piece + 1..piece + 1 + tree.branches.len();
        if !own.is_empty() {
            let mask = packed.mask(tree.prefix as i64, tree.longest() as i64, q[piece].kind());
            let [q, k, v] = [&q, &k, &v].map(|t| batch(&t[own.clone()], tree));
            let (k, v) = (with_prefix(prefix_k, &k), with_prefix(prefix_v, &v));
            let out = if composed(&q, q.size()[1], k.size()[2]) {
                by_products(&q, &k, &v, &mask)
            } else {
                by_library(&q, &k, &v, Some(&mask))
            };
            outputs.extend(unbatch(&out, tree));
        }
        piece = own.end;
    }
    if outputs.len() == 1 { outputs.remove(0) } else { Tensor::cat(&outputs, 0) }
}

/// Causal attention of one sequence: `[P, heads, d]` to `[P, heads * d]`.
fn sequence(q: &Tensor, k: &Tensor, v: &Tensor, packed: &Packed) -> Tensor {
    let rows = q.size()[0];
    let [k, v] = [k, v].map(|t| t.transpose(0, 1).unsqueeze(0));
    if composed(q, rows, rows) {
        return by_products(
            &q.unsqueeze(0),
            &k.contiguous(),
            &v.contiguous(),
            &packed.mask(0, rows, q.kind()),
        );
    }
    by_library(&q.unsqueeze(0), &k, &v, None)
}

/// Branches side by side, padded at the end: `[B, L, heads, d]`.
fn batch(pieces: &[Tensor], tree: &Tree) -> Tensor {
    let longest = tree.longest() as i64;
    let size = pieces[0].size();
    let zeros = Tensor::zeros([longest, size[1], size[2]], (pieces[0].kind(), pieces[0].device()));
    let mut padded = Vec::with_capacity(2 * pieces.len());
    for (piece, &length) in pieces.iter().zip(&tree.branches) {
        padded.push(piece.shallow_clone());
        if (length as i64) < longest {
            padded.push(zeros.narrow(0, 0, longest - length as i64));
        }
    }
    Tensor::cat(&padded, 0).view([pieces.len() as i64, longest, size[1], size[2]])
}

/// The rows of every branch out of `[B * L, width]`, padding dropped.
fn unbatch(out: &Tensor, tree: &Tree) -> Vec<Tensor> {
    let longest = tree.longest();
    if tree.branches.iter().all(|&n| n == longest) {
        return vec![out.shallow_clone()];
    }
    let sizes: Vec<i64> = tree.branches.iter().flat_map(|&n| [n as i64, (longest - n) as i64]).collect();
    out.split_with_sizes(&sizes, 0).into_iter().step_by(2).collect()
}

/// The prefix's keys (or values) before each branch's own: `[B, kv_heads, P + L, d]`.
fn with_prefix(prefix: &Tensor, own: &Tensor) -> Tensor {
    let (branches, own) = (own.size()[0], own.transpose(1, 2));
    let prefix = prefix.transpose(0, 1).unsqueeze(0).expand([branches, -1, -1, -1], false);
    Tensor::cat(&[prefix, own], 2)
}

/// Whether products and softmax are better than libtorch's own attention.
///
/// On CPUs with bf16 they are: for nine heads of 64 and eight branches of 128 over a prefix of 128,
/// forward and backward took 25 ms instead of 62, and log-probs were as near to f32. The full scores
/// must be small enough to be kept for backward, though. In f32 both take the same time.
fn composed(q: &Tensor, rows: i64, keys: i64) -> bool {
    q.kind() == Kind::BFloat16 && !q.device().is_cuda() && rows * keys <= 1 << 20
}

/// Attention of `q: [B, L, heads, d]` over `k, v: [B, kv_heads, K, d]`, to `[B * L, heads * d]`;
/// without a mask it is causal.
fn by_library(q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>) -> Tensor {
    let [b, l, heads, d] = size4(q);
    let (q, grouped) = (q.transpose(1, 2), heads != k.size()[1]);
    let out = Tensor::scaled_dot_product_attention(&q, k, v, mask, 0.0, mask.is_none(), None, grouped);
    out.transpose(1, 2).reshape([b * l, heads * d])
}

/// As [`by_library`], from matrix products and a softmax that is computed in f32; `k` and `v` are
/// contiguous.
fn by_products(q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor) -> Tensor {
    let [b, l, heads, d] = size4(q);
    let [_, kv_heads, keys, _] = size4(k);
    let group = heads / kv_heads;
    let q = q.view([b, l, kv_heads, group, d]).permute([0, 2, 3, 1, 4]).reshape([b * kv_heads, group * l, d]);
    let k = k.view([b * kv_heads, keys, d]);
    let v = v.view([b * kv_heads, keys, d]);
    let mask = mask.unsqueeze(0).expand([group, -1, -1], false).reshape([1, group * l, keys]);
    let mask = mask.expand([b * kv_heads, -1, -1], false);
    let scores = mask.baddbmm(&q, &k.transpose(1, 2), 1.0, (d as f64).powf(-0.5));
    let out = scores.softmax(-1, None::<Kind>).bmm(&v);
    out.view([b, kv_heads, group, l, d]).permute([0, 3, 1, 2, 4]).reshape([b * l, heads * d])
}

fn size4(t: &Tensor) -> [i64; 4] {
    let size = t.size();
    [size[0], size[1], size[2], size[3]]
}
