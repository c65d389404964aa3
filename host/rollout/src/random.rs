//! Random numbers that are a function of a seed and a position, so that a sequence draws the same
//! numbers whatever runs beside it.

/// A number in `[0, 1)` with 53 random bits, for token `index` of a sequence with `seed`.
pub(crate) fn uniform(seed: u64, index: u64) -> f64 {
    let key = [seed as u32, (seed >> 32) as u32];
    let words = philox([index as u32, (index >> 32) as u32, 0, 0], key);
    let bits = u64::from(words[0]) << 32 | u64::from(words[1]);
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// Philox 4x32 with ten rounds.
/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(counter[0]) * 0xd251_1f53;
        let b = u64::from(counter[2]) * 0xcd9e_8d57;
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_known_answers_of_its_authors() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([!0; 4], [!0; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let pi = philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]);
        assert_eq!(pi, [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    }

    #[test]
    fn numbers_are_spread_evenly_and_differ_by_seed_and_index() {
        let n = 20_000;
        let numbers: Vec<f64> = (0..n).map(|i| uniform(7, i)).collect();
        let mean = numbers.iter().sum::<f64>() / n as f64;
        assert!((mean - 0.5).abs() < 0.01);
        assert!(numbers.iter().all(|u| (0.0..1.0).contains(u)));
        assert_ne!(uniform(7, 0), uniform(8, 0));
        assert_ne!(uniform(7, 0), uniform(7, 1));
    }
}
