//! Matrix products with packed weights, for few rows as well as for many.
//!
//! Weights lie in panels of 32 columns, so that every step reads two whole vectors. libtorch packs
//! them anew at each call, which a decode step of a few rows cannot hide. A row's result has the same
//! bits whatever rows are computed beside it: each output is one sum, taken in the order of the
//! inner dimension. Nothing here knows what the matrices mean.

#![allow(unsafe_code)]

use crate::lanes::{Isa, Kernel, LANES, Lanes, dispatch, silu};
use crate::number::Number;
use rayon::prelude::*;

/// Columns of a panel.
const PANEL: usize = 2 * LANES;
/// Rows that are kept in the second-level cache while panels pass by.
const ROW_BLOCK: usize = 168;

/// A weight matrix `[n, k]` (rows are output features, as in `torch.nn.Linear`), packed for [`linear`].
pub struct PackedMatrix<T> {
    n: usize,
    k: usize,
    gated: bool,
    panels: Vec<T>,
}

impl<T: Number> PackedMatrix<T> {
    /// A matrix of zeros. `k` is the number of input features.
    pub fn zeros(n: usize, k: usize) -> Self {
        PackedMatrix {
            n,
            k,
            gated: false,
            panels: vec![T::default(); n.div_ceil(PANEL) * PANEL * padded::<T>(k)],
        }
    }

    /// Two matrices of zeros of `n` rows each, the gate first and then what it gates, for [`linear_gated`].
    pub fn zeros_gated(n: usize, k: usize) -> Self {
        let size = n.div_ceil(LANES) * PANEL * padded::<T>(k);
        PackedMatrix { n: 2 * n, k, gated: true, panels: vec![T::default(); size] }
    }

    /// Output features.
    pub fn rows(&self) -> usize {
        self.n
    }

    /// Input features.
    pub fn columns(&self) -> usize {
        self.k
    }

    /// The size in memory.
    pub fn bytes(&self) -> usize {
        size_of_val(self.panels.as_slice())
    }

    /// Replaces the rows from `first` on by `values`, which holds whole rows.
    ///
    /// # Panics
    /// If `values` is not whole rows within the matrix.
    pub fn set_rows(&mut self, first: usize, values: &[T]) {
        assert!(values.len().is_multiple_of(self.k) && first + values.len() / self.k <= self.n);
        for (row, values) in values.chunks_exact(self.k).enumerate() {
            let start = self.row_start(first + row);
            for (pair, values) in values.chunks(T::PAIR).enumerate() {
                let at = start + pair * PANEL * T::PAIR;
                self.panels[at..at + values.len()].copy_from_slice(values);
            }
        }
    }

    /// Copies row `row` to `out`, which holds `k` values.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn copy_row(&self, row: usize, out: &mut [T]) {
        assert!(row < self.n && out.len() == self.k);
        let start = self.row_start(row);
        for (pair, out) in out.chunks_mut(T::PAIR).enumerate() {
            let at = start + pair * PANEL * T::PAIR;
            out.copy_from_slice(&self.panels[at..at + out.len()]);
        }
    }

    fn row_start(&self, row: usize) -> usize {
        let (panel, column) = if self.gated {
            let half = self.n / 2;
            let (row, side) = if row < half { (row, 0) } else { (row - half, LANES) };
            (row / LANES, row % LANES + side)
        } else {
            (row / PANEL, row % PANEL)
        };
        panel * PANEL * padded::<T>(self.k) + column * T::PAIR
    }
}

/// What happens to `x W^T + bias` before it is written.
#[derive(Clone, Copy)]
enum Finish {
    /// It is written.
    Store,
    /// It is rounded and added to what is there.
    Add,
    /// `silu(gate) * up` of a gated matrix is written.
    Gate,
}

/// `out = x W^T + bias`: `x` is `[m, k]`, `out` is `[m, n]`, `bias` is `[n]`. Work is shared out over the rayon pool.
/// Sums are f32; the format of `out` says whether they are rounded.
///
/// # Panics
/// If the sizes do not match, or `w` is gated.
pub fn linear<T: Number, O: Number>(
    isa: Isa,
    x: &[T],
    w: &PackedMatrix<T>,
    bias: Option<&[T]>,
    out: &mut [O],
) {
    assert!(!w.gated);
    product(isa, x, w, bias, Finish::Store, out, w.n);
}

/// `out += x W^T + bias` in f32, with the product rounded before it is added, as separate operations would do.
///
/// # Panics
/// If the sizes do not match, or `w` is gated.
pub fn linear_add<T: Number>(isa: Isa, x: &[T], w: &PackedMatrix<T>, bias: Option<&[T]>, out: &mut [f32]) {
    assert!(!w.gated);
    product(isa, x, w, bias, Finish::Add, out, w.n);
}

/// `out = silu(x G^T) * (x U^T)` for a gated matrix of `G` and `U`; every step is rounded as separate operations would do.
///
/// # Panics
/// If the sizes do not match, or `w` is not gated.
pub fn linear_gated<T: Number>(isa: Isa, x: &[T], w: &PackedMatrix<T>, bias: Option<&[T]>, out: &mut [T]) {
    assert!(w.gated);
    product(isa, x, w, bias, Finish::Gate, out, w.n / 2);
}

fn padded<T: Number>(k: usize) -> usize {
    k.next_multiple_of(T::PAIR)
}

#[derive(Clone, Copy)]
struct Output<T>(*mut T);
// SAFETY: tasks write disjoint columns or rows.
unsafe impl<T: Send> Send for Output<T> {}
unsafe impl<T: Send> Sync for Output<T> {}

fn product<T: Number, O: Number>(
    isa: Isa,
    x: &[T],
    w: &PackedMatrix<T>,
    bias: Option<&[T]>,
    finish: Finish,
    out: &mut [O],
    out_columns: usize,
) {
    let (k, m) = (w.k, x.len() / w.k);
    assert!(x.len() == m * k && out.len() == m * out_columns);
    assert!(bias.is_none_or(|b| b.len() == w.n));
    if m == 0 {
        return;
    }
    // Rows of an odd number of bf16 are widened, so that pairs can be read.
    let widened: Vec<T>;
    let stride = padded::<T>(k);
    let x = if stride == k {
        x
    } else {
        widened = x.chunks_exact(k).flat_map(|row| row.iter().copied().chain([T::default()])).collect();
        &widened
    };
    let panels = w.panels.len() / (PANEL * stride);
    let blocks = m.div_ceil(ROW_BLOCK);
    let rows_per_block = m.div_ceil(blocks);
    let threads = rayon::current_num_threads();
    // A few tasks more than threads, so that a thread which is late costs little.
    let columns = if threads == 1 { 1 } else { (4 * threads).div_ceil(blocks).min(panels) };
    let target = Output(out.as_mut_ptr());
    let task = |index: usize| {
        let (block, column) = (index / columns, index % columns);
        let first_row = block * rows_per_block;
        let task = Task {
            x,
            stride,
            panels: &w.panels,
            rows: first_row..m.min(first_row + rows_per_block),
            columns: column * panels / columns..(column + 1) * panels / columns,
            bias,
            finish,
            out: target,
            out_columns,
        };
        dispatch(isa, task);
    };
    if blocks * columns == 1 {
        task(0);
    } else {
        (0..blocks * columns).into_par_iter().with_max_len(1).for_each(task);
    }
}

/// A part of a product of numbers `T`, whose results are numbers `O`.
struct Task<'a, T, O> {
    x: &'a [T],
    stride: usize,
    panels: &'a [T],
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
    bias: Option<&'a [T]>,
    finish: Finish,
    out: Output<O>,
    out_columns: usize,
}

impl<T: Number, O: Number> Kernel for Task<'_, T, O> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        let m = self.rows.len();
        let groups = m.div_ceil(L::ROWS);
        for panel in self.columns.clone() {
            let weights = &self.panels[panel * PANEL * self.stride..(panel + 1) * PANEL * self.stride];
            for group in 0..groups {
                let first = self.rows.start + group * m / groups;
                let rows = self.rows.start + (group + 1) * m / groups - first;
                let x = &self.x[first * self.stride..(first + rows) * self.stride];
                // SAFETY: `x` holds `rows` rows and `weights` one panel; the outputs of this task are its own.
                unsafe {
                    match rows {
                        1 => self.tile::<L, 1>(x, weights, panel, first),
                        2 => self.tile::<L, 2>(x, weights, panel, first),
                        3 => self.tile::<L, 3>(x, weights, panel, first),
                        4 => self.tile::<L, 4>(x, weights, panel, first),
                        5 => self.tile::<L, 5>(x, weights, panel, first),
                        6 => self.tile::<L, 6>(x, weights, panel, first),
                        7 => self.tile::<L, 7>(x, weights, panel, first),
                        8 => self.tile::<L, 8>(x, weights, panel, first),
                        9 => self.tile::<L, 9>(x, weights, panel, first),
                        10 => self.tile::<L, 10>(x, weights, panel, first),
                        11 => self.tile::<L, 11>(x, weights, panel, first),
                        12 => self.tile::<L, 12>(x, weights, panel, first),
                        13 => self.tile::<L, 13>(x, weights, panel, first),
                        _ => self.tile::<L, 14>(x, weights, panel, first),
                    }
                }
            }
        }
    }
}

impl<T: Number, O: Number> Task<'_, T, O> {
    /// `M` rows times one panel.
    ///
    /// # Safety
    /// `x` holds `M` rows of `stride`, `weights` one panel, and rows `first..first + M` of `out` exist.
    #[inline(always)]
    unsafe fn tile<L: Lanes, const M: usize>(&self, x: &[T], weights: &[T], panel: usize, first: usize) {
        if M > L::ROWS {
            return; // never asked for; keeps the compiler from building it
        }
        let mut acc = [[L::splat(0.0); 2]; M];
        let (x, w) = (x.as_ptr(), weights.as_ptr());
        // SAFETY: within the slices, by the caller's promise.
        unsafe {
            for step in 0..self.stride / T::PAIR {
                let b = w.add(step * PANEL * T::PAIR);
                for (r, acc) in acc.iter_mut().enumerate() {
                    let a = x.add(r * self.stride + step * T::PAIR);
                    acc[0] = T::step(acc[0], a, b);
                    acc[1] = T::step(acc[1], a, b.add(LANES * T::PAIR));
                }
            }
            for (r, sums) in acc.iter().enumerate() {
                let row = self.out.0.add((first + r) * self.out_columns);
                match self.finish {
                    Finish::Gate => {
                        let gate = T::round(self.biased(sums[0], panel * LANES, self.out_columns));
                        let up = T::round(self.biased_from(sums[1], panel * LANES, self.out_columns));
                        let value = T::round(silu(gate)).mul(up);
                        self.write(row, panel * LANES, value);
                    }
                    Finish::Store => {
                        for (side, sum) in sums.iter().enumerate() {
                            let column = panel * PANEL + side * LANES;
                            self.write(row, column, self.biased(*sum, column, self.out_columns));
                        }
                    }
                    Finish::Add => {
                        for (side, sum) in sums.iter().enumerate() {
                            let column = panel * PANEL + side * LANES;
                            let value = T::round(self.biased(*sum, column, self.out_columns));
                            if column < self.out_columns {
                                let old: L = self.read(row, column);
                                self.write(row, column, old.add(value));
                            }
                        }
                    }
                }
            }
        }
    }

    /// Adds the bias of 16 columns from `column` on, of which those below `end` exist.
    #[inline(always)]
    fn biased<L: Lanes>(&self, x: L, column: usize, end: usize) -> L {
        match self.bias {
            None => x,
            Some(bias) => x.add(partial_load(&bias[..end], column)),
        }
    }

    /// The same for the second half of a gated matrix's bias.
    #[inline(always)]
    fn biased_from<L: Lanes>(&self, x: L, column: usize, half: usize) -> L {
        match self.bias {
            None => x,
            Some(bias) => x.add(partial_load(&bias[half..], column)),
        }
    }

    #[inline(always)]
    unsafe fn read<L: Lanes>(&self, row: *const O, column: usize) -> L {
        let width = (self.out_columns - column).min(LANES);
        // SAFETY: the row has `out_columns` values.
        unsafe {
            if width == LANES {
                return O::load(row.add(column));
            }
            let mut values = [O::default(); LANES];
            for (i, value) in values.iter_mut().enumerate().take(width) {
                *value = *row.add(column + i);
            }
            O::load(values.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn write<L: Lanes>(&self, row: *mut O, column: usize, x: L) {
        let width = self.out_columns.saturating_sub(column).min(LANES);
        // SAFETY: the row has `out_columns` values.
        unsafe {
            if width == LANES {
                return O::store(row.add(column), x);
            }
            let mut values = [O::default(); LANES];
            O::store(values.as_mut_ptr(), x);
            for (i, value) in values.iter().enumerate().take(width) {
                *row.add(column + i) = *value;
            }
        }
    }
}

/// 16 values from `start` on, zero where `values` ends.
#[inline(always)]
fn partial_load<T: Number, L: Lanes>(values: &[T], start: usize) -> L {
    let mut sixteen = [T::default(); LANES];
    let have = values.len().saturating_sub(start).min(LANES);
    if have > 0 {
        sixteen[..have].copy_from_slice(&values[start..start + have]);
    }
    // SAFETY: the array holds 16 values.
    unsafe { T::load(sixteen.as_ptr()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    fn numbers<T: Number>(n: usize, seed: u32) -> Vec<T> {
        let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                T::from_f32((state >> 8) as f32 / (1 << 23) as f32 - 1.0)
            })
            .collect()
    }

    fn dot<T: Number>(a: &[T], b: &[T]) -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(a.to_f32()) * f64::from(b.to_f32())).sum()
    }

    fn check<T: Number>(tolerance: f64) {
        for (m, n, k) in [(1, 32, 8), (3, 70, 18), (5, 33, 7), (17, 96, 64), (200, 40, 72)] {
            let (x, weights, bias) = (numbers::<T>(m * k, 1), numbers::<T>(n * k, 2), numbers::<T>(n, 3));
            let mut w = PackedMatrix::zeros(n, k);
            w.set_rows(0, &weights[..2 * k]);
            w.set_rows(2, &weights[2 * k..]);
            let mut row = vec![T::default(); k];
            w.copy_row(n - 1, &mut row);
            assert!(row.iter().zip(&weights[(n - 1) * k..]).all(|(a, b)| a.to_f32() == b.to_f32()));
            for isa in Isa::available() {
                let start = numbers::<f32>(m * n, 4);
                let (mut stored, mut added) = (vec![T::default(); m * n], start.clone());
                linear(isa, &x, &w, Some(&bias), &mut stored);
                linear_add(isa, &x, &w, None, &mut added);
                for i in 0..m * n {
                    let (row, column) = (i / n, i % n);
                    let want = dot(&x[row * k..(row + 1) * k], &weights[column * k..(column + 1) * k]);
                    let with_bias = want + f64::from(bias[column].to_f32());
                    let got = f64::from(stored[i].to_f32());
                    assert!(
                        (got - with_bias).abs() <= tolerance * (1.0 + want.abs()),
                        "{isa:?} {m}x{n}x{k}: {got} {with_bias}"
                    );
                    let sum = want + f64::from(start[i]);
                    let got = f64::from(added[i]);
                    assert!(
                        (got - sum).abs() <= 2.0 * tolerance * (1.0 + want.abs()),
                        "{isa:?} {m}x{n}x{k}: {got} {sum}"
                    );
                }
            }
        }
    }

    #[test]
    fn products_equal_their_definition_in_every_instruction_set() {
        check::<f32>(2e-6);
        check::<bf16>(5e-3);
    }

    #[test]
    fn a_gated_product_is_silu_of_one_half_times_the_other() {
        let (m, n, k) = (6, 37, 24);
        let (x, weights, bias) =
            (numbers::<f32>(m * k, 1), numbers::<f32>(2 * n * k, 2), numbers::<f32>(2 * n, 3));
        let mut w = PackedMatrix::zeros_gated(n, k);
        w.set_rows(0, &weights);
        for isa in Isa::available() {
            let mut out = vec![0f32; m * n];
            linear_gated(isa, &x, &w, Some(&bias), &mut out);
            for i in 0..m * n {
                let (row, column) = (&x[i / n * k..(i / n + 1) * k], i % n);
                let side = |c: usize| dot(row, &weights[c * k..(c + 1) * k]) + f64::from(bias[c]);
                let (gate, up) = (side(column), side(n + column));
                let want = gate / (1.0 + (-gate).exp()) * up;
                assert!(
                    (f64::from(out[i]) - want).abs() < 2e-5 * (1.0 + want.abs()),
                    "{isa:?}: {} {want}",
                    out[i]
                );
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_alone_and_in_any_batch() {
        let (n, k) = (64, 96);
        let (x, weights) = (numbers::<bf16>(40 * k, 1), numbers::<bf16>(n * k, 2));
        let mut w = PackedMatrix::zeros(n, k);
        w.set_rows(0, &weights);
        for isa in Isa::available() {
            let mut alone = vec![bf16::ZERO; n];
            linear(isa, &x[..k], &w, None, &mut alone);
            for m in 2..=40 {
                let mut batch = vec![bf16::ZERO; m * n];
                linear(isa, &x[..m * k], &w, None, &mut batch);
                assert_eq!(batch[..n], alone, "{isa:?}, {m} rows");
            }
        }
    }
}
