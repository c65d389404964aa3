//! One pass of AdamW over flat arrays, for the CPU.
//!
//! As separate tensor operations an update passes over its arrays eleven times; here each element is read
//! and written once. An element's result depends on that element alone, so cutting the arrays
//! changes no bit.

use crate::lanes::{Isa, Kernel, Lanes, dispatch};
use rayon::prelude::*;

/// Elements that one task updates.
const PIECE: usize = 1 << 16;

/// The numbers of one update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Added to the root of the corrected second moment.
    pub eps: f32,
    /// What weights are multiplied by first: `1 - lr · weight decay`.
    pub keep: f32,
    /// `lr / (1 - beta1^t)`.
    pub step: f32,
    /// `√(1 - beta2^t)`.
    pub root: f32,
    /// What gradients are multiplied by.
    pub scale: f32,
}

impl AdamW {
    /// Updates `weights` and both moments by `grad`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn update(&self, weights: &mut [f32], moment1: &mut [f32], moment2: &mut [f32], grad: &[f32]) {
        let n = weights.len();
        assert!(moment1.len() == n && moment2.len() == n && grad.len() == n);
        let isa = Isa::detect();
        weights
            .par_chunks_mut(PIECE)
            .zip(moment1.par_chunks_mut(PIECE))
            .zip(moment2.par_chunks_mut(PIECE))
            .zip(grad.par_chunks(PIECE))
            .for_each(|(((weights, moment1), moment2), grad)| {
                dispatch(isa, Update { with: *self, weights, moment1, moment2, grad });
            });
    }
}

struct Update<'a> {
    with: AdamW,
    weights: &'a mut [f32],
    moment1: &'a mut [f32],
    moment2: &'a mut [f32],
    grad: &'a [f32],
}

impl Kernel for Update<'_> {
    type Output = ();

    /// A plain loop: the compiler vectorises it with the instructions of the set it is entered with.
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let AdamW { beta1, beta2, eps, keep, step, root, scale } = self.with;
        let moments = self.moment1.iter_mut().zip(self.moment2.iter_mut());
        for ((weight, (m, v)), grad) in self.weights.iter_mut().zip(moments).zip(self.grad) {
            let g = grad * scale;
            *m = beta1 * *m + (1.0 - beta1) * g;
            *v = beta2 * *v + (1.0 - beta2) * g * g;
            let denominator = v.sqrt() / root + eps;
            *weight = *weight * keep - step * *m / denominator;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_the_formula_whatever_the_length() {
        let with =
            AdamW { beta1: 0.9, beta2: 0.99, eps: 1e-8, keep: 0.999, step: 0.1, root: 0.5, scale: 0.5 };
        for n in [0, 1, 17, PIECE + 3] {
            let grad: Vec<f32> = (0..n).map(|i| (i % 7) as f32 - 3.0).collect();
            let (mut w, mut m, mut v) = (vec![1f32; n], vec![0.5f32; n], vec![0.25f32; n]);
            with.update(&mut w, &mut m, &mut v, &grad);
            for i in 0..n {
                let g = f64::from(grad[i]) * 0.5;
                let (first, second) = (0.45 + 0.1 * g, 0.2475 + 0.01 * g * g);
                let expected = 0.999 - 0.1 * first / (second.sqrt() / 0.5 + 1e-8);
                assert!((f64::from(w[i]) - expected).abs() < 1e-6, "{i}: {} instead of {expected}", w[i]);
            }
        }
    }
}
