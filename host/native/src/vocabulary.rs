//! Sums over a row of logits, as a sampler needs them: one pass for the maximum, one for the rest.
//!
//! Nothing here knows how a token is chosen.

#![allow(unsafe_code)]

use crate::lanes::{Isa, Kernel, LANES, Lanes, dispatch, exp};
use crate::number::Number;

/// Logits whose sum [`exp_sums`] gives apart, so that a draw need not walk the whole row.
pub const CHUNK: usize = 256;

/// The greatest logit; `-inf` for an empty row. A row with a value that is not finite gives not-a-number.
pub fn greatest<T: Number>(isa: Isa, row: &[T]) -> f32 {
    dispatch(isa, Greatest { row })
}

struct Greatest<'a, T> {
    row: &'a [T],
}

impl<T: Number> Kernel for Greatest<'_, T> {
    type Output = f32;

    #[inline(always)]
    fn run<L: Lanes>(self) -> f32 {
        let (whole, tail) = self.row.as_chunks::<LANES>();
        let mut top = L::splat(f32::NEG_INFINITY);
        // Stays zero as long as every value is finite.
        let mut flaw = L::splat(0.0);
        for x in whole {
            // SAFETY: sixteen values.
            let x: L = unsafe { T::load(x.as_ptr()) };
            top = top.max(x);
            flaw = flaw.fma(x, L::splat(0.0));
        }
        let (mut top, mut flaw) = (top.greatest(), flaw.sum());
        for x in tail {
            top = top.max(x.to_f32());
            flaw += x.to_f32() * 0.0;
        }
        if flaw == 0.0 { top } else { f32::NAN }
    }
}

/// For every [`CHUNK`] of the row, `[sum e^y, sum y e^y]` with `y = (x - greatest) * inverse_temperature`.
pub fn exp_sums<T: Number>(
    isa: Isa,
    row: &[T],
    greatest: f32,
    inverse_temperature: f32,
    sums: &mut Vec<[f32; 2]>,
) {
    sums.clear();
    dispatch(isa, ExpSums { row, greatest, inverse_temperature, sums });
}

struct ExpSums<'a, T> {
    row: &'a [T],
    greatest: f32,
    inverse_temperature: f32,
    sums: &'a mut Vec<[f32; 2]>,
}

impl<T: Number> Kernel for ExpSums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let (top, scale) = (L::splat(self.greatest), L::splat(self.inverse_temperature));
        for chunk in self.row.chunks(CHUNK) {
            let (mut sum, mut weighted) = (L::splat(0.0), L::splat(0.0));
            let (whole, tail) = chunk.as_chunks::<LANES>();
            for x in whole {
                // SAFETY: sixteen values.
                let y = unsafe { T::load::<L>(x.as_ptr()) }.sub(top).mul(scale);
                let e = exp(y);
                sum = sum.add(e);
                weighted = weighted.fma(y, e);
            }
            let (mut sum, mut weighted) = (sum.sum(), weighted.sum());
            for x in tail {
                let y = (x.to_f32() - self.greatest) * self.inverse_temperature;
                let e = exp(L::splat(y)).to_array()[0];
                sum += e;
                weighted += y * e;
            }
            self.sums.push([sum, weighted]);
        }
    }
}

/// `e^x` with the rounding of [`exp_sums`].
pub fn exponential(isa: Isa, x: f32) -> f32 {
    dispatch(isa, Exponential(x))
}

struct Exponential(f32);

impl Kernel for Exponential {
    type Output = f32;

    #[inline(always)]
    fn run<L: Lanes>(self) -> f32 {
        exp(L::splat(self.0)).to_array()[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    #[test]
    fn sums_equal_their_definition_in_every_instruction_set() {
        let row: Vec<bf16> = (0..1003).map(|i| bf16::from_f32(((i * 71) % 307) as f32 / 10.0)).collect();
        for isa in Isa::available() {
            let top = greatest(isa, &row);
            assert_eq!(top, bf16::from_f32(30.6).to_f32());
            let mut sums = Vec::new();
            exp_sums(isa, &row, top, 0.7, &mut sums);
            assert_eq!(sums.len(), 4);
            let (mut sum, mut weighted) = (0f64, 0f64);
            for x in &row {
                let y = f64::from(x.to_f32() - top) * 0.7;
                sum += y.exp();
                weighted += y * y.exp();
            }
            let got = sums.iter().fold([0f64; 2], |a, s| [a[0] + f64::from(s[0]), a[1] + f64::from(s[1])]);
            assert!(
                (got[0] / sum - 1.0).abs() < 1e-5 && (got[1] / weighted - 1.0).abs() < 1e-4,
                "{isa:?}: {got:?}"
            );
        }
    }

    #[test]
    fn a_row_with_a_value_that_is_not_finite_is_noticed() {
        for isa in Isa::available() {
            for place in [0, 17, 39] {
                for flaw in [f32::NAN, f32::INFINITY] {
                    let mut row = vec![1f32; 40];
                    row[place] = flaw;
                    assert!(greatest(isa, &row).is_nan(), "{isa:?} {place}");
                }
            }
        }
    }
}
