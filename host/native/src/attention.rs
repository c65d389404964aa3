//! Attention of one query row over keys and values in blocks.
//!
//! A block holds sixteen positions of every layer and head, so a sequence grows without copying
//! and a prompt's blocks serve all its samples. Keys lie transposed within a block (sixteen scores are
//! one vector, no sum across lanes), values by position. libtorch's attention for a single query
//! took more than a third of a decode step. Nothing here knows which sequence a block belongs to.

#![allow(unsafe_code)]

use crate::lanes::{Isa, Kernel, LANES, Lanes, dispatch, exp, prefetch};
use crate::number::Number;

/// Positions of a block.
pub const BLOCK: usize = LANES;

/// Keys and values of [`BLOCK`] positions; [`KvShape::block_len`] values.
pub type Block<T> = Box<[T]>;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvShape {
    /// Decoder layers.
    pub layers: usize,
    /// Key and value heads of a layer.
    pub kv_heads: usize,
    /// Values of a head.
    pub head_dim: usize,
}

impl KvShape {
    /// The number of values in a block.
    pub fn block_len(&self) -> usize {
        self.layers * self.kv_heads * 2 * BLOCK * self.width()
    }

    /// A head's values, rounded up to whole vectors; the rest is zero.
    fn width(&self) -> usize {
        self.head_dim.next_multiple_of(LANES)
    }

    /// Where the keys of a head begin; its values follow at `BLOCK * width`.
    fn keys(&self, layer: usize, head: usize) -> usize {
        (layer * self.kv_heads + head) * 2 * BLOCK * self.width()
    }

    /// Writes one position: `k` and `v` are `[kv_heads, head_dim]`, `slot` is the position modulo [`BLOCK`].
    ///
    /// # Panics
    /// If the sizes do not match.
    pub fn write<T: Number>(&self, block: &mut [T], layer: usize, slot: usize, k: &[T], v: &[T]) {
        assert!(block.len() == self.block_len() && slot < BLOCK && layer < self.layers);
        assert!(k.len() == self.kv_heads * self.head_dim && v.len() == k.len());
        let width = self.width();
        for (head, (k, v)) in k.chunks_exact(self.head_dim).zip(v.chunks_exact(self.head_dim)).enumerate() {
            let start = self.keys(layer, head);
            let (keys, values) = block[start..start + 2 * BLOCK * width].split_at_mut(BLOCK * width);
            let columns = keys.chunks_exact_mut(BLOCK * T::PAIR);
            for (column, k) in columns.zip(k.chunks(T::PAIR)) {
                column[slot * T::PAIR..slot * T::PAIR + k.len()].copy_from_slice(k);
            }
            values[slot * width..slot * width + self.head_dim].copy_from_slice(v);
        }
    }
}

/// Positions that a query sees: the first `len` of `blocks`.
#[derive(Clone, Copy)]
pub struct Span<'a, T> {
    /// Blocks in order.
    pub blocks: &'a [Block<T>],
    /// Positions to attend to.
    pub len: usize,
}

/// `softmax(scale * q K^T) V` for all heads of one row: `q` and `out` are `[heads, head_dim]`, consecutive query heads share
/// a key head. `spans` are seen one after another; where they are cut changes no bit. `scores` is memory to work in.
///
/// # Panics
/// If the sizes do not match, or no position is seen.
#[allow(clippy::too_many_arguments)]
pub fn attend<T: Number>(
    isa: Isa,
    shape: KvShape,
    layer: usize,
    q: &[T],
    scale: f32,
    spans: &[Span<'_, T>],
    scores: &mut Vec<f32>,
    out: &mut [T],
) {
    let heads = q.len() / shape.head_dim;
    assert!(
        q.len() == out.len() && heads * shape.head_dim == q.len() && heads.is_multiple_of(shape.kv_heads)
    );
    assert!(layer < shape.layers && spans.iter().any(|s| s.len > 0));
    for span in spans {
        assert!(span.len <= span.blocks.len() * BLOCK);
        assert!(span.blocks.iter().all(|b| b.len() == shape.block_len()));
    }
    dispatch(isa, Attend { shape, layer, q, scale, spans, scores, out });
}

/// Query heads that are computed together, so that keys and values are read once for all of them.
const TOGETHER: usize = 4;
/// The widest head that is computed without memory of its own.
const WIDEST: usize = 256;

struct Attend<'a, T> {
    shape: KvShape,
    layer: usize,
    q: &'a [T],
    scale: f32,
    spans: &'a [Span<'a, T>],
    scores: &'a mut Vec<f32>,
    out: &'a mut [T],
}

impl<T: Number> Kernel for Attend<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self) {
        let per_key = self.q.len() / self.shape.head_dim / self.shape.kv_heads;
        // Scores lie by position, whatever blocks they come from, so that sums over them do not show where a span ends.
        let seen: usize = self.spans.iter().map(|s| s.len).sum();
        let row = seen.next_multiple_of(BLOCK) + BLOCK;
        self.scores.resize(TOGETHER * row, 0.0);
        for head in 0..self.shape.kv_heads {
            let mut first = head * per_key;
            while first < (head + 1) * per_key {
                let count = ((head + 1) * per_key - first).min(TOGETHER);
                // SAFETY: sizes were checked by `attend`.
                unsafe {
                    match count {
                        1 => self.heads::<L, 1>(head, first, seen, row),
                        2 => self.heads::<L, 2>(head, first, seen, row),
                        3 => self.heads::<L, 3>(head, first, seen, row),
                        _ => self.heads::<L, 4>(head, first, seen, row),
                    }
                }
                first += count;
            }
        }
    }
}

impl<T: Number> Attend<'_, T> {
    /// # Safety
    /// Query heads `first..first + H` exist and read from key head `head`; `seen` positions are in the spans, and `scores` holds
    /// `H` rows of `row`, at least a block more than that.
    #[inline(always)]
    unsafe fn heads<L: Lanes, const H: usize>(&mut self, head: usize, first: usize, seen: usize, row: usize) {
        let (dim, width) = (self.shape.head_dim, self.shape.width());
        let offset = self.shape.keys(self.layer, head);
        // A head that is no whole number of pairs or vectors is widened with zeros.
        let mut widened = [T::default(); TOGETHER * WIDEST];
        let (q, stride) = if dim.is_multiple_of(T::PAIR) || width > WIDEST {
            (&self.q[first * dim..(first + H) * dim], dim)
        } else {
            for h in 0..H {
                widened[h * width..h * width + dim]
                    .copy_from_slice(&self.q[(first + h) * dim..(first + h + 1) * dim]);
            }
            (&widened[..H * width], width)
        };

        // Scores and their maximum.
        let mut greatest = [f32::NEG_INFINITY; H];
        let mut position = 0;
        for span in self.spans {
            for (index, block) in span.blocks[..span.len.div_ceil(BLOCK)].iter().enumerate() {
                let seen = (span.len - index * BLOCK).min(BLOCK);
                let mut acc = [L::splat(0.0); H];
                // SAFETY: keys of one head are `width * BLOCK` values from `offset` on; a pair of `q` lies within its head.
                unsafe {
                    let keys = block.as_ptr().add(offset);
                    // Blocks lie apart, so the processor does not foresee the next one: ask for its keys and
                    // values while these are multiplied.
                    let next = span.blocks.get(index + 1).map_or(keys, |b| b.as_ptr().add(offset));
                    for step in 0..dim.div_ceil(T::PAIR) {
                        let k = keys.add(step * BLOCK * T::PAIR);
                        prefetch(next.add(step * BLOCK * T::PAIR));
                        prefetch(next.add((width / T::PAIR + step) * BLOCK * T::PAIR));
                        for (h, acc) in acc.iter_mut().enumerate() {
                            *acc = T::step(*acc, q.as_ptr().add(h * stride + step * T::PAIR), k);
                        }
                    }
                    for (h, acc) in acc.iter().enumerate() {
                        // What is behind the last position is overwritten by the next block.
                        let at = h * row + position;
                        acc.mul(L::splat(self.scale)).store(self.scores.as_mut_ptr().add(at));
                        let scores = &mut self.scores[at..at + BLOCK];
                        scores[seen..].fill(f32::NEG_INFINITY);
                        // SAFETY: sixteen scores.
                        greatest[h] = greatest[h].max(L::load(scores.as_ptr()).greatest());
                    }
                }
                position += seen;
            }
        }

        // Weights, not yet divided by their sum.
        let mut sums = [0f32; H];
        for h in 0..H {
            self.scores[h * row + seen..h * row + seen.next_multiple_of(BLOCK)].fill(f32::NEG_INFINITY);
            let top = L::splat(greatest[h]);
            let mut sum = L::splat(0.0);
            for first in (0..seen).step_by(BLOCK) {
                // SAFETY: sixteen scores.
                unsafe {
                    let at = self.scores.as_mut_ptr().add(h * row + first);
                    let weight = exp(L::load(at).sub(top));
                    sum = sum.add(weight);
                    weight.store(at);
                }
            }
            sums[h] = 1.0 / sum.sum();
        }

        // The weighted mean of the values, up to four vectors of a head at a time.
        let mut column = 0;
        while column < width {
            let vectors = ((width - column) / LANES).min(4);
            // SAFETY: columns `column..column + 16 * vectors` lie within `width`.
            unsafe {
                match vectors {
                    1 => self.values::<L, H, 1>(offset, first, row, column, &sums),
                    2 => self.values::<L, H, 2>(offset, first, row, column, &sums),
                    3 => self.values::<L, H, 3>(offset, first, row, column, &sums),
                    _ => self.values::<L, H, 4>(offset, first, row, column, &sums),
                }
            }
            column += vectors * LANES;
        }
    }

    /// # Safety
    /// As for `heads`; `V` vectors from `column` on lie within a head's width.
    #[inline(always)]
    unsafe fn values<L: Lanes, const H: usize, const V: usize>(
        &mut self,
        offset: usize,
        first: usize,
        row: usize,
        column: usize,
        scales: &[f32; H],
    ) {
        let (dim, width) = (self.shape.head_dim, self.shape.width());
        let mut acc = [[L::splat(0.0); V]; H];
        let mut position = 0;
        for span in self.spans {
            for (index, block) in span.blocks[..span.len.div_ceil(BLOCK)].iter().enumerate() {
                let seen = (span.len - index * BLOCK).min(BLOCK);
                // SAFETY: values of one head are `BLOCK * width` from `offset + BLOCK * width` on.
                unsafe {
                    let values = block.as_ptr().add(offset + BLOCK * width + column);
                    let weights = self.scores.as_ptr().add(position);
                    for slot in 0..seen {
                        let mut v = [L::splat(0.0); V];
                        for (i, v) in v.iter_mut().enumerate() {
                            *v = T::load(values.add(slot * width + i * LANES));
                        }
                        for (h, acc) in acc.iter_mut().enumerate() {
                            let weight = L::splat(*weights.add(h * row + slot));
                            for i in 0..V {
                                acc[i] = acc[i].fma(weight, v[i]);
                            }
                        }
                    }
                }
                position += seen;
            }
        }
        for (h, acc) in acc.iter().enumerate() {
            for (i, acc) in acc.iter().enumerate() {
                let mut sixteen = [T::default(); LANES];
                // SAFETY: the array holds 16 values.
                unsafe { T::store(sixteen.as_mut_ptr(), acc.mul(L::splat(scales[h]))) };
                let start = column + i * LANES;
                let have = dim.saturating_sub(start).min(LANES);
                let at = (first + h) * dim + start;
                if have > 0 {
                    self.out[at..at + have].copy_from_slice(&sixteen[..have]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    fn number(i: usize) -> f32 {
        ((i.wrapping_mul(2_654_435_761) >> 7) % 2001) as f32 / 1000.0 - 1.0
    }

    struct Case<T> {
        shape: KvShape,
        q: Vec<T>,
        k: Vec<Vec<T>>,
        v: Vec<Vec<T>>,
    }

    fn case<T: Number>(heads: usize, kv_heads: usize, head_dim: usize, positions: usize) -> Case<T> {
        let shape = KvShape { layers: 2, kv_heads, head_dim };
        let row =
            |salt: usize, n: usize| (0..n).map(|i| T::from_f32(number(salt * 7919 + i))).collect::<Vec<T>>();
        Case {
            shape,
            q: row(1, heads * head_dim),
            k: (0..positions).map(|p| row(2 + p, kv_heads * head_dim)).collect(),
            v: (0..positions).map(|p| row(100_000 + p, kv_heads * head_dim)).collect(),
        }
    }

    impl<T: Number> Case<T> {
        fn blocks(&self, positions: std::ops::Range<usize>) -> Vec<Block<T>> {
            let blocks = positions.len().div_ceil(BLOCK);
            // What was never written must not be read: not-a-number would spread.
            let mut all: Vec<Block<T>> =
                (0..blocks).map(|_| vec![T::from_f32(f32::NAN); self.shape.block_len()].into()).collect();
            for block in &mut all {
                // Padding of a head is zero by contract.
                if !self.shape.head_dim.is_multiple_of(LANES) {
                    block.fill(T::default());
                }
            }
            for (i, p) in positions.enumerate() {
                self.shape.write(&mut all[i / BLOCK], 1, i % BLOCK, &self.k[p], &self.v[p]);
            }
            all
        }

        fn attend(&self, isa: Isa, split: usize) -> Vec<f32> {
            let (one, two) = (self.blocks(0..split), self.blocks(split..self.k.len()));
            let mut out = vec![T::default(); self.q.len()];
            let spans = [Span { blocks: &one, len: split }, Span { blocks: &two, len: self.k.len() - split }];
            attend(isa, self.shape, 1, &self.q, 0.3, &spans, &mut Vec::new(), &mut out);
            out.iter().map(|x| x.to_f32()).collect()
        }

        fn definition(&self) -> Vec<f64> {
            let (dim, per_key) =
                (self.shape.head_dim, self.q.len() / self.shape.head_dim / self.shape.kv_heads);
            let mut out = Vec::new();
            for (head, q) in self.q.chunks_exact(dim).enumerate() {
                let at = head / per_key * dim;
                let weights: Vec<f64> = self
                    .k
                    .iter()
                    .map(|k| {
                        let k = &k[at..at + dim];
                        let dot: f64 =
                            q.iter().zip(k).map(|(a, b)| f64::from(a.to_f32()) * f64::from(b.to_f32())).sum();
                        (0.3 * dot).exp()
                    })
                    .collect();
                let total: f64 = weights.iter().sum();
                for i in 0..dim {
                    let mean: f64 =
                        self.v.iter().zip(&weights).map(|(v, w)| w * f64::from(v[at + i].to_f32())).sum();
                    out.push(mean / total);
                }
            }
            out
        }
    }

    fn check<T: Number>(tolerance: f64) {
        for (heads, kv_heads, head_dim, positions, split) in
            [(9, 3, 64, 77, 64), (4, 4, 8, 5, 0), (8, 1, 128, 33, 20), (10, 2, 16, 16, 16), (3, 1, 80, 40, 3)]
        {
            let case = case::<T>(heads, kv_heads, head_dim, positions);
            let want = case.definition();
            for isa in Isa::available() {
                let got = case.attend(isa, split);
                for (got, want) in got.iter().zip(&want) {
                    assert!((f64::from(*got) - want).abs() < tolerance, "{isa:?} {head_dim}: {got} {want}");
                }
                for elsewhere in 0..positions {
                    assert_eq!(case.attend(isa, elsewhere), got, "{isa:?} {head_dim}, cut at {elsewhere}");
                }
            }
        }
    }

    #[test]
    fn attention_equals_its_definition_in_every_instruction_set_and_wherever_spans_are_cut() {
        check::<f32>(5e-6);
        check::<bf16>(4e-3);
    }
}
