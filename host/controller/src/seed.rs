//! Seeds of samples, as pure functions of the run's seed: nothing is remembered between steps, so a
//! resumed run draws what it would have drawn.

/// What a seed is for, so that no two uses share a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Sample = 1,
    Evaluation = 2,
}

/// Seed of one training sample: it does not depend on what else is in the batch.
pub fn sample(run: u64, step: u64, slot: usize, sample: usize) -> u64 {
    mix(&[run, Purpose::Sample as u64, step, slot as u64, sample as u64])
}

/// Seed of one evaluation sample: the same at every evaluation, so that curves compare like with like.
pub fn evaluation(run: u64, row: usize, sample: usize) -> u64 {
    mix(&[run, Purpose::Evaluation as u64, row as u64, sample as u64])
}

/// splitmix64 (Steele, Lea, Flood 2014) chained over the words.
fn mix(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |state, word| {
        let mut z = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn seeds_of_different_samples_differ() {
        let mut seen = HashSet::new();
        for step in 1..20 {
            for slot in 0..8 {
                for k in 0..8 {
                    assert!(seen.insert(sample(1, step, slot, k)));
                }
            }
        }
        assert!(seen.insert(evaluation(1, 0, 0)));
        assert_ne!(sample(1, 1, 0, 0), sample(2, 1, 0, 0));
    }
}
