//! The block formats of GGUF tensors, turned into f32.
//!
//! Layouts follow `ggml-common.h` and `dequantize_row_*` of `ggml-quants.c`. All integers and
//! floats are little-endian; `d` is a block's scale, `m` its minimum.

use half::{bf16, f16};

/// A tensor type of GGUF that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GgmlType {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// bfloat16.
    Bf16,
    /// 4 bits, scale.
    Q4_0,
    /// 4 bits, scale and minimum.
    Q4_1,
    /// 5 bits, scale.
    Q5_0,
    /// 5 bits, scale and minimum.
    Q5_1,
    /// 8 bits, scale.
    Q8_0,
    /// 4 bits in super-blocks of 256.
    Q4K,
    /// 5 bits in super-blocks of 256.
    Q5K,
    /// 6 bits in super-blocks of 256.
    Q6K,
}

impl GgmlType {
    /// Names of the readable types, for messages.
    pub const NAMES: &str = "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K";

    /// The type of a number in a GGUF file.
    pub fn from_id(id: u32) -> Option<GgmlType> {
        Some(match id {
            0 => GgmlType::F32,
            1 => GgmlType::F16,
            2 => GgmlType::Q4_0,
            3 => GgmlType::Q4_1,
            6 => GgmlType::Q5_0,
            7 => GgmlType::Q5_1,
            8 => GgmlType::Q8_0,
            12 => GgmlType::Q4K,
            13 => GgmlType::Q5K,
            14 => GgmlType::Q6K,
            30 => GgmlType::Bf16,
            _ => return None,
        })
    }

    /// Elements of a block, and its bytes.
    pub fn block(self) -> (usize, usize) {
        match self {
            GgmlType::F32 => (1, 4),
            GgmlType::F16 | GgmlType::Bf16 => (1, 2),
            GgmlType::Q4_0 => (32, 18),
            GgmlType::Q4_1 => (32, 20),
            GgmlType::Q5_0 => (32, 22),
            GgmlType::Q5_1 => (32, 24),
            GgmlType::Q8_0 => (32, 34),
            GgmlType::Q4K => (256, 144),
            GgmlType::Q5K => (256, 176),
            GgmlType::Q6K => (256, 210),
        }
    }

    /// The values of whole blocks. Trailing bytes that do not fill a block are ignored.
    pub fn dequantise(self, bytes: &[u8]) -> Vec<f32> {
        let (elements, size) = self.block();
        let mut out = vec![0.0; bytes.len() / size * elements];
        for (block, y) in bytes.chunks_exact(size).zip(out.chunks_exact_mut(elements)) {
            match self {
                GgmlType::F32 => y[0] = f32::from_le_bytes([block[0], block[1], block[2], block[3]]),
                GgmlType::F16 => y[0] = half_at(block, 0),
                GgmlType::Bf16 => y[0] = bf16::from_le_bytes([block[0], block[1]]).to_f32(),
                GgmlType::Q4_0 => q4(block, 2, -8.0, 0.0, y),
                GgmlType::Q4_1 => q4(block, 4, 0.0, half_at(block, 2), y),
                GgmlType::Q5_0 => q5(block, 2, -16.0, 0.0, y),
                GgmlType::Q5_1 => q5(block, 4, 0.0, half_at(block, 2), y),
                GgmlType::Q8_0 => {
                    let d = half_at(block, 0);
                    for (y, &q) in y.iter_mut().zip(&block[2..]) {
                        *y = d * f32::from(q.cast_signed());
                    }
                }
                GgmlType::Q4K => q45_k(block, None, &block[16..], y),
                GgmlType::Q5K => q45_k(block, Some(&block[16..48]), &block[48..], y),
                GgmlType::Q6K => q6_k(block, y),
            }
        }
        out
    }
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// 32 nibbles, the low ones first: `d * (q + offset) + m`.
fn q4(block: &[u8], at: usize, offset: f32, m: f32, y: &mut [f32]) {
    let d = half_at(block, 0);
    for (j, &q) in block[at..at + 16].iter().enumerate() {
        y[j] = d * (f32::from(q & 15) + offset) + m;
        y[j + 16] = d * (f32::from(q >> 4) + offset) + m;
    }
}

/// As [`q4`], with the fifth bits of all 32 elements in a 32-bit word before the nibbles.
fn q5(block: &[u8], at: usize, offset: f32, m: f32, y: &mut [f32]) {
    let d = half_at(block, 0);
    let high = u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    let fifth = |j: usize| ((high >> j & 1) << 4) as u8;
    for (j, &q) in block[at + 4..at + 20].iter().enumerate() {
        y[j] = d * (f32::from(q & 15 | fifth(j)) + offset) + m;
        y[j + 16] = d * (f32::from(q >> 4 | fifth(j + 16)) + offset) + m;
    }
}

/// Six-bit scale and minimum of sub-block `j` out of the twelve packed bytes.
fn scale_and_minimum(j: usize, packed: &[u8]) -> (f32, f32) {
    let (scale, minimum) = if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        (packed[j + 4] & 15 | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4)
    };
    (f32::from(scale), f32::from(minimum))
}

/// Eight sub-blocks of 32: `d * scale * q - dmin * minimum`; Q5_K has fifth bits in `high`, where
/// bit `j` of byte `l` belongs to element `l` of sub-block `j`.
fn q45_k(block: &[u8], high: Option<&[u8]>, nibbles: &[u8], y: &mut [f32]) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    for (j, y) in y.chunks_exact_mut(32).enumerate() {
        let (scale, minimum) = scale_and_minimum(j, &block[4..16]);
        let (d, m) = (d * scale, dmin * minimum);
        for (l, y) in y.iter_mut().enumerate() {
            let byte = nibbles[j / 2 * 32 + l];
            let low = if j % 2 == 0 { byte & 15 } else { byte >> 4 };
            let fifth = high.map_or(0, |h| (h[l] >> j & 1) << 4);
            *y = d * f32::from(low | fifth) - m;
        }
    }
}

/// Two halves of 128: low nibbles in 64 bytes, two high bits in 32 bytes, a signed scale per 16.
fn q6_k(block: &[u8], y: &mut [f32]) {
    let (low, high, scales, d) = (&block[..128], &block[128..192], &block[192..208], half_at(block, 208));
    for (n, y) in y.chunks_exact_mut(128).enumerate() {
        for (i, y) in y.iter_mut().enumerate() {
            let (quarter, l) = (i / 32, i % 32);
            let byte = low[n * 64 + quarter % 2 * 32 + l];
            let nibble = if quarter < 2 { byte & 15 } else { byte >> 4 };
            let two = high[n * 32 + l] >> (2 * quarter) & 3;
            let q = f32::from(nibble | two << 4) - 32.0;
            *y = d * f32::from(scales[n * 8 + i / 16].cast_signed()) * q;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::GgmlType;

    /// Two blocks of a fixed pattern of bytes with round scales; the expected numbers were made from
    /// the same bytes by `gguf.quants.dequantize` of ggml's own Python package.
    #[test]
    fn blocks_have_the_values_that_ggml_gives_them() {
        let scale = [[0, 2].as_slice(), &[0]];
        for (kind, halves, first, last, sum, weighted) in [
            (GgmlType::Q4_0, scale[1], [-1.5, 1.0, 3.5, -2.0], [-2.25, -4.5, 6.0, 3.75], 6.75, 730.25),
            (
                GgmlType::Q4_1,
                scale[0],
                [7.75, 2.25, 4.75, 1.75],
                [-4.125, -5.625, -7.875, -9.375],
                -56.75,
                -6989.5,
            ),
            (GgmlType::Q5_0, scale[1], [4.5, -6.5, 4.0, -1.5], [1.5, 11.25, 9.75, 7.5], 27.0, 1362.5),
            (
                GgmlType::Q5_1,
                scale[0],
                [12.25, 14.75, 9.25, 11.75],
                [-18.375, -7.875, -9.375, -23.625],
                -121.5,
                -14761.25,
            ),
            (
                GgmlType::Q8_0,
                scale[1],
                [42.5, 61.0, -48.5, -30.0],
                [-90.0, 74.25, 46.5, 18.75],
                -51.5,
                -639.25,
            ),
            (
                GgmlType::Q4K,
                scale[0],
                [63.5, 141.0, 218.5, 48.0],
                [-241.875, 20.625, -35.625, -73.125],
                -1111.25,
                96348.125,
            ),
            (
                GgmlType::Q5K,
                scale[0],
                [451.0, 32.5, 358.0, 187.5],
                [5.625, -21.375, -25.875, -28.875],
                -27886.25,
                -1172337.25,
            ),
            (
                GgmlType::Q6K,
                &[208],
                [-217.5, 696.0, -1174.5, -261.0],
                [381.0, 2095.5, -2190.75, -2000.25],
                4148.75,
                700170.5,
            ),
        ] {
            let size = kind.block().1;
            let mut bytes: Vec<u8> = (0..2 * size).map(|i| ((i * 37 + 11) % 251) as u8).collect();
            for (block, sign) in [(0, 1.0), (1, -1.5)] {
                for (&at, scale) in halves.iter().zip([0.5, 0.25]) {
                    let half = half::f16::from_f32(scale * sign).to_le_bytes();
                    bytes[block * size + at..][..2].copy_from_slice(&half);
                }
            }
            let values = kind.dequantise(&bytes);
            let n = values.len();
            assert_eq!((&values[..4], &values[n - 4..]), (first.as_slice(), last.as_slice()), "{kind:?}");
            assert_eq!(values.iter().map(|&v| f64::from(v)).sum::<f64>(), sum, "{kind:?}");
            let by_place = values.iter().enumerate().map(|(i, &v)| f64::from(v) * ((i % 97) + 1) as f64);
            assert_eq!(by_place.sum::<f64>(), weighted, "{kind:?}");
        }
    }

    #[test]
    fn plain_floats_are_read_as_they_are() {
        let bytes: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(GgmlType::F32.dequantise(&bytes), [1.5, -2.0]);
        assert_eq!(GgmlType::F16.dequantise(&half::f16::from_f32(0.25).to_le_bytes()), [0.25]);
        assert_eq!(GgmlType::Bf16.dequantise(&half::bf16::from_f32(-3.0).to_le_bytes()), [-3.0]);
    }
}
