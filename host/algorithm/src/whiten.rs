//! Bringing values to mean 0 and deviation 1 over the trained tokens of a batch.

use crate::group::mean_of;

/// What the variance of `n` values is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variance {
    /// `n - 1` (verl, slime).
    Sample,
    /// `n` (NeMo RL, OpenRLHF, AReaL's default).
    Population,
}

/// How the divisor is kept from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Guard {
    /// `√(var + eps)` (verl and slime: 1e-8).
    AddToVariance(f64),
    /// `√max(var, eps)` (NeMo RL and OpenRLHF: 1e-8).
    LeastVariance(f64),
    /// `√var + eps` (AReaL: 1e-5, LightRFT: 1e-9).
    AddToDeviation(f64),
}

/// Mean and divisor of a whitening, to be applied to any value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Whitening {
    /// Mean of the trained values.
    pub mean: f64,
    /// What centred values are divided by.
    pub divisor: f64,
}

impl Whitening {
    /// Takes the statistics of the values where `mask` is set; `None` with fewer than two of them, which have
    /// no deviation.
    pub fn fit(values: &[f64], mask: &[bool], variance: Variance, guard: Guard) -> Option<Whitening> {
        let trained: Vec<f64> = values.iter().zip(mask).filter(|(_, m)| **m).map(|(v, _)| *v).collect();
        if trained.len() < 2 {
            return None;
        }
        let (n, mean) = (trained.len() as f64, mean_of(&trained));
        let squares: Vec<f64> = trained.iter().map(|v| (v - mean).powi(2)).collect();
        let divided_by = match variance {
            Variance::Sample => n - 1.0,
            Variance::Population => n,
        };
        let variance = mean_of(&squares) * n / divided_by;
        let divisor = match guard {
            Guard::AddToVariance(eps) => (variance + eps).sqrt(),
            Guard::LeastVariance(eps) => variance.max(eps).sqrt(),
            Guard::AddToDeviation(eps) => variance.sqrt() + eps,
        };
        Some(Whitening { mean, divisor })
    }

    /// `(value - mean) / divisor`.
    pub fn apply(&self, value: f64) -> f64 {
        (value - self.mean) / self.divisor
    }
}

/// Whitened values, 0 where `mask` is not set; all 0 with fewer than two trained ones.
pub fn whiten(values: &[f64], mask: &[bool], variance: Variance, guard: Guard) -> Vec<f64> {
    let fitted = Whitening::fit(values, mask, variance, guard);
    let one = |(&value, &trained): (&f64, &bool)| match fitted {
        Some(whitening) if trained => whitening.apply(value),
        _ => 0.0,
    };
    values.iter().zip(mask).map(one).collect()
}

/// Over what a statistic of a [`Normalisation`] is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// All trained values.
    Batch,
    /// Those of one group.
    Group,
}

/// `(x - mean) / (deviation + eps)` with mean and deviation each over a span of its own, or left out.
///
/// The deviation is that of the centred values about 0, and 1 where a span has one value and `variance` is
/// [`Variance::Sample`]. Source: AReaL's `Normalization`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalisation {
    /// Over what the mean is taken, if one is subtracted.
    pub mean: Option<Span>,
    /// The mean is that of the span's other values.
    pub leave_one_out: bool,
    /// Over what the deviation is taken, if there is one.
    pub deviation: Option<Span>,
    /// What the deviation's squares are divided by.
    pub variance: Variance,
    /// Keeps the quotient finite.
    pub eps: f64,
}

impl Normalisation {
    /// Normalised values, 0 where `mask` is not set; `groups` has the group of each value.
    pub fn apply(&self, values: &[f64], mask: &[bool], groups: &[u32]) -> Vec<f64> {
        let trained = |span: Span, i: usize| -> Vec<usize> {
            (0..values.len())
                .filter(|&j| mask[j] && (span == Span::Batch || groups[j] == groups[i]))
                .collect()
        };
        let centre = |i: usize| {
            let Some(span) = self.mean else { return values[i] };
            let members = trained(span, i);
            let n = members.len() as f64;
            let mean = mean_of(&members.iter().map(|&j| values[j]).collect::<Vec<_>>());
            // The mean of the others is (n mean - x) / (n - 1).
            if self.leave_one_out && n > 1.0 { (values[i] - mean) * n / (n - 1.0) } else { values[i] - mean }
        };
        let centred: Vec<f64> = (0..values.len()).map(|i| if mask[i] { centre(i) } else { 0.0 }).collect();
        let divide = |i: usize| {
            let Some(span) = self.deviation else { return centred[i] };
            let members = trained(span, i);
            let n = members.len() as f64;
            let squares: f64 = members.iter().map(|&j| centred[j] * centred[j]).sum();
            let std = match self.variance {
                Variance::Sample if n < 2.0 => 1.0,
                Variance::Sample => (squares / (n - 1.0)).sqrt(),
                Variance::Population => (squares / n).sqrt(),
            };
            centred[i] / (std + self.eps)
        };
        (0..values.len()).map(|i| if mask[i] { divide(i) } else { 0.0 }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trained_values_get_mean_zero_and_deviation_one_whatever_is_masked() {
        for masked in [0.0, f64::NAN, 1e300] {
            let mask = [true, true, false, true];
            let out =
                whiten(&[1.0, 2.0, masked, 6.0], &mask, Variance::Population, Guard::LeastVariance(1e-8));
            assert_eq!(out[2], 0.0);
            assert!(out.iter().sum::<f64>().abs() < 1e-12);
            assert!((out.iter().map(|v| v * v).sum::<f64>() / 3.0 - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn one_value_or_equal_values_become_zero() {
        let guard = Guard::AddToVariance(1e-8);
        assert_eq!(whiten(&[5.0, 7.0], &[true, false], Variance::Sample, guard), [0.0, 0.0]);
        assert_eq!(whiten(&[5.0, 5.0], &[true, true], Variance::Sample, guard), [0.0, 0.0]);
    }
}
