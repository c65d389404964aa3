//! What happens to one row between the matrix products: normalisation and rotary positions.
//!
//! Every step rounds where separate tensor operations would, so that the results are those of the
//! model's definition and not merely close. Nothing here knows layers.

#![allow(unsafe_code)]

use crate::lanes::{Isa, Kernel, LANES, Lanes, dispatch};
use crate::number::Number;

/// Root-mean-square normalisation of every `weight.len()` values of `x` by themselves: a row, or the heads of a row.
/// In f32 inside, rounded to the format of `weight`, then times it (as Hugging Face's `LlamaRMSNorm`).
///
/// # Panics
/// If `x` is not whole rows, or `out` has another size.
pub fn rms_norm<X: Number, T: Number>(isa: Isa, x: &[X], weight: &[T], eps: f32, out: &mut [T]) {
    assert!(x.len() == out.len() && x.len().is_multiple_of(weight.len()));
    dispatch(isa, RmsNorm { x, weight, eps, out });
}

struct RmsNorm<'a, X, T> {
    x: &'a [X],
    weight: &'a [T],
    eps: f32,
    out: &'a mut [T],
}

impl<X: Number, T: Number> Kernel for RmsNorm<'_, X, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let n = self.weight.len();
        for (x, out) in self.x.chunks_exact(n).zip(self.out.chunks_exact_mut(n)) {
            let mut squares = L::splat(0.0);
            let mut rest = 0f32;
            let (whole, tail) = x.as_chunks::<LANES>();
            for x in whole {
                // SAFETY: sixteen values.
                let x: L = unsafe { X::load(x.as_ptr()) };
                squares = squares.fma(x, x);
            }
            for x in tail {
                rest += x.to_f32() * x.to_f32();
            }
            let scale = 1.0 / ((squares.sum() + rest) / n as f32 + self.eps).sqrt();
            let (weights, weight_tail) = self.weight.as_chunks::<LANES>();
            let (outs, out_tail) = out.as_chunks_mut::<LANES>();
            for ((x, weight), out) in whole.iter().zip(weights).zip(outs) {
                // SAFETY: sixteen values each.
                unsafe {
                    let x: L = X::load(x.as_ptr());
                    let normed = T::round(x.mul(L::splat(scale)));
                    T::store(out.as_mut_ptr(), normed.mul(T::load(weight.as_ptr())));
                }
            }
            for ((x, weight), out) in tail.iter().zip(weight_tail).zip(out_tail) {
                *out = T::from_f32(T::from_f32(x.to_f32() * scale).to_f32() * weight.to_f32());
            }
        }
    }
}

/// Turns every head of `row` by its position: `x cos + rotate_half(x) sin`. `cos` and `sin` hold half a head each.
/// The first product is rounded, the second added to it in one step, as `(x * cos).addcmul(..)` does.
///
/// # Panics
/// If `row` is not whole heads.
pub fn rope<T: Number>(isa: Isa, row: &mut [T], cos: &[T], sin: &[T]) {
    assert!(cos.len() == sin.len() && row.len().is_multiple_of(2 * cos.len()));
    dispatch(isa, Rope { row, cos, sin });
}

struct Rope<'a, T> {
    row: &'a mut [T],
    cos: &'a [T],
    sin: &'a [T],
}

impl<T: Number> Kernel for Rope<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let half = self.cos.len();
        let vectors = half / LANES * LANES;
        for head in self.row.chunks_exact_mut(2 * half) {
            let (first, second) = head.split_at_mut(half);
            let mut i = 0;
            while i < vectors {
                // SAFETY: sixteen values from `i` on lie within each half.
                unsafe {
                    let a: L = T::load(first.as_ptr().add(i));
                    let b: L = T::load(second.as_ptr().add(i));
                    let (c, s): (L, L) =
                        (T::load(self.cos.as_ptr().add(i)), T::load(self.sin.as_ptr().add(i)));
                    T::store(first.as_mut_ptr().add(i), T::round(a.mul(c)).sub(b.mul(s)));
                    T::store(second.as_mut_ptr().add(i), T::round(b.mul(c)).add(a.mul(s)));
                }
                i += LANES;
            }
            let round = |x: f32| T::from_f32(x).to_f32();
            for i in vectors..half {
                let (a, b) = (first[i].to_f32(), second[i].to_f32());
                let (c, s) = (self.cos[i].to_f32(), self.sin[i].to_f32());
                first[i] = T::from_f32(round(a * c) - b * s);
                second[i] = T::from_f32(round(b * c) + a * s);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalisation_and_rotation_equal_their_definitions() {
        let x: Vec<f32> = (0..3 * 76).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
        let weight: Vec<f32> = (0..76).map(|i| 0.5 + i as f32 / 76.0).collect();
        let cos: Vec<f32> = (0..38).map(|i| (i as f32 * 0.3).cos()).collect();
        let sin: Vec<f32> = (0..38).map(|i| (i as f32 * 0.3).sin()).collect();
        for isa in Isa::available() {
            let mut normed = vec![0f32; x.len()];
            rms_norm(isa, &x, &weight, 1e-5, &mut normed);
            let mut turned = x.clone();
            rope(isa, &mut turned, &cos, &sin);
            for (row, x) in x.chunks(76).enumerate() {
                let mean: f32 = x.iter().map(|x| x * x).sum::<f32>() / 76.0;
                for i in 0..76 {
                    let want = x[i] / (mean + 1e-5).sqrt() * weight[i];
                    assert!((normed[row * 76 + i] - want).abs() < 1e-5, "{isa:?}");
                    let (j, other) = if i < 38 { (i, -x[i + 38]) } else { (i - 38, x[i - 38]) };
                    let want = x[i] * cos[j] + other * sin[j];
                    assert!((turned[row * 76 + i] - want).abs() < 1e-6, "{isa:?}");
                }
            }
        }
    }
}
