//! The order in which rows are used: a pure function of seed and position, so that resuming is exact.
//!
//! The generator is written out here, because a run resumed years later must not depend on the version
//! of a random number crate.

use std::ops::Range;

/// Rows of a data set, epoch after epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    len: usize,
    /// `None` keeps the file's order.
    seed: Option<u64>,
}

impl Order {
    /// Every epoch takes all `len` rows once, in an order of its own that follows from `seed`.
    pub fn new(len: usize, seed: u64) -> Self {
        Order { len, seed: Some(seed) }
    }

    /// Every epoch takes all `len` rows in file order.
    pub fn in_file_order(len: usize) -> Self {
        Order { len, seed: None }
    }

    /// Row indices at the positions `range`, counted from the start of the run. Position `len` begins the second epoch.
    ///
    /// Empty when there are no rows.
    pub fn rows(&self, range: Range<u64>) -> Vec<usize> {
        let mut rows = Vec::with_capacity(range.end.saturating_sub(range.start) as usize);
        let len = self.len as u64;
        let mut position = range.start;
        while len > 0 && position < range.end {
            let epoch = position / len;
            let order = self.epoch(epoch);
            let stop = range.end.min((epoch + 1) * len);
            rows.extend((position..stop).map(|p| order[(p % len) as usize]));
            position = stop;
        }
        rows
    }

    /// All rows in the order of one epoch (Fisher-Yates).
    fn epoch(&self, epoch: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.len).collect();
        if let Some(seed) = self.seed {
            let mut state = mix(seed ^ mix(epoch));
            for last in (1..self.len).rev() {
                order.swap(last, below(&mut state, last as u64 + 1) as usize);
            }
        }
        order
    }
}

/// A uniform number below `bound`, by multiplication with rejection (Lemire, arXiv 1805.10941).
fn below(state: &mut u64, bound: u64) -> u64 {
    loop {
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let product = u128::from(mix(*state)) * u128::from(bound);
        if product as u64 >= bound.wrapping_neg() % bound {
            return (product >> 64) as u64;
        }
    }
}

/// The output function of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
