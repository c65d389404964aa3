//! Rotary position embedding: inverse frequencies with the scalings that checkpoints use, and tables.
//!
//! Source of the scalings: `modeling_rope_utils.py` of transformers; YaRN is arXiv 2309.00071.

use std::f64::consts::PI;
use tch::{Kind, Tensor};

/// Rotary settings of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Base of the frequencies.
    pub theta: f64,
    /// How frequencies are stretched for longer contexts.
    pub scaling: RopeScaling,
}

/// How the frequencies of a [`Rope`] are stretched.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All frequencies divided by a factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Llama 3.1: low frequencies divided, high ones kept, a ramp between.
    Llama3 {
        /// Divides the low frequencies.
        factor: f64,
        /// Wavelengths above `original / low_freq_factor` count as low frequencies.
        low_freq_factor: f64,
        /// Wavelengths below `original / high_freq_factor` are kept.
        high_freq_factor: f64,
        /// Context length of pre-training, in tokens.
        original: f64,
    },
    /// YaRN: a ramp over dimensions between interpolation and extrapolation, and warmer attention.
    Yarn {
        /// Divides the interpolated frequencies.
        factor: f64,
        /// Context length of pre-training, in tokens.
        original: f64,
        /// Rotations above which a dimension is extrapolated.
        beta_fast: f64,
        /// Rotations below which a dimension is interpolated.
        beta_slow: f64,
        /// Whether the ramp's ends are rounded to whole dimensions.
        truncate: bool,
        /// Factor on cosines and sines.
        attention: f64,
    },
}

impl Rope {
    /// `theta^(-2i/d)` for `i` in `0..d/2`, scaled.
    pub fn inverse_frequencies(&self, head_dim: usize) -> Vec<f64> {
        let plain = (0..head_dim / 2).map(|i| self.theta.powf(-2.0 * i as f64 / head_dim as f64));
        match self.scaling {
            RopeScaling::None => plain.collect(),
            RopeScaling::Linear { factor } => plain.map(|f| f / factor).collect(),
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original } => plain
                .map(|f| {
                    let wavelength = 2.0 * PI / f;
                    if wavelength > original / low_freq_factor {
                        return f / factor;
                    }
                    if wavelength < original / high_freq_factor {
                        return f;
                    }
                    let smooth =
                        (original / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor);
                    (1.0 - smooth) * f / factor + smooth * f
                })
                .collect(),
            RopeScaling::Yarn { factor, original, beta_fast, beta_slow, truncate, .. } => {
                let d = head_dim as f64;
                let dimension =
                    |rotations: f64| d * (original / (rotations * 2.0 * PI)).ln() / (2.0 * self.theta.ln());
                let (mut low, mut high) = (dimension(beta_fast), dimension(beta_slow));
                if truncate {
                    (low, high) = (low.floor(), high.ceil());
                }
                let low = low.max(0.0);
                let mut high = high.min(d - 1.0);
                if low == high {
                    high += 0.001;
                }
                plain
                    .enumerate()
                    .map(|(i, f)| {
                        let interpolate = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                        f / factor * interpolate + f * (1.0 - interpolate)
                    })
                    .collect()
            }
        }
    }

    /// Factor on cosines and sines; 1 but for YaRN.
    pub fn attention_factor(&self) -> f64 {
        match self.scaling {
            RopeScaling::Yarn { attention, .. } => attention,
            _ => 1.0,
        }
    }

    /// Cosines and signed sines of every position, `[T, 1, head_dim]` in `kind`.
    ///
    /// The sine's first half is negated, so that `x * cos + roll(x, d/2) * sin` rotates. Angles are
    /// computed in f32, as transformers does, and in f64 where `kind` is f64.
    pub fn tables(&self, head_dim: usize, positions: &Tensor, kind: Kind) -> (Tensor, Tensor) {
        let precise = if kind == Kind::Double { Kind::Double } else { Kind::Float };
        let inverse = Tensor::from_slice(&self.inverse_frequencies(head_dim))
            .to_kind(precise)
            .to_device(positions.device());
        let angles = positions.to_kind(precise).unsqueeze(-1) * inverse;
        let (cos, sin) = (angles.cos(), angles.sin());
        let (cos, sin) = (Tensor::cat(&[&cos, &cos], -1), Tensor::cat(&[&sin.neg(), &sin], -1));
        let factor = self.attention_factor();
        let finish = |t: Tensor| (if factor == 1.0 { t } else { t * factor }).to_kind(kind).unsqueeze(1);
        (finish(cos), finish(sin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frequencies(scaling: RopeScaling) -> Vec<f64> {
        Rope { theta: 5e5, scaling }.inverse_frequencies(64)
    }

    #[test]
    fn llama3_keeps_high_frequencies_and_divides_low_ones() {
        let plain = frequencies(RopeScaling::None);
        let scaled = frequencies(RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original: 8192.0,
        });
        assert_eq!(scaled[0], plain[0]);
        assert_eq!(scaled[31], plain[31] / 8.0);
        for (s, p) in scaled.iter().zip(&plain) {
            assert!(*s <= *p && *s >= *p / 8.0);
        }
        // From transformers' _compute_llama3_parameters: the first medium band of this setting.
        let medium: Vec<_> =
            (0..32).filter(|&i| scaled[i] < plain[i] && scaled[i] > plain[i] / 8.0).collect();
        assert_eq!(medium, [15, 16, 17]);
    }

    #[test]
    fn yarn_extrapolates_fast_dimensions_and_interpolates_slow_ones() {
        let plain = frequencies(RopeScaling::None);
        let scaled = frequencies(RopeScaling::Yarn {
            factor: 4.0,
            original: 32_768.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            truncate: true,
            attention: 1.0,
        });
        assert_eq!(scaled[0], plain[0]);
        assert_eq!(scaled[31], plain[31] / 4.0);
    }
}
