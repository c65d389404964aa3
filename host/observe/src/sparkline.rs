//! A curve in one line of text.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The whole history in at most `width` bars: bars show bucket means, scaled between the lowest and the
/// highest bucket. A flat history is drawn low; numbers that are not finite are left out.
pub fn sparkline(history: &[f64], width: usize) -> String {
    let finite: Vec<f64> = history.iter().copied().filter(|v| v.is_finite()).collect();
    if finite.is_empty() || width == 0 {
        return String::new();
    }
    let buckets = finite.len().min(width);
    let means: Vec<f64> = (0..buckets)
        .map(|b| {
            let bucket = &finite[b * finite.len() / buckets..(b + 1) * finite.len() / buckets];
            bucket.iter().sum::<f64>() / bucket.len() as f64
        })
        .collect();
    let low = means.iter().copied().fold(f64::INFINITY, f64::min);
    let high = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = high - low;
    let top = (BARS.len() - 1) as f64;
    means
        .iter()
        .map(|v| if range > 1e-12 { BARS[((v - low) / range * top).round() as usize] } else { BARS[1] })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rising_history_rises() {
        assert_eq!(sparkline(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 8), "▁▂▃▄▅▆▇█");
    }

    #[test]
    fn a_long_history_keeps_its_width_and_its_ends() {
        let history: Vec<f64> = (0..1000).map(f64::from).collect();
        let line = sparkline(&history, 10);
        assert_eq!(line.chars().count(), 10);
        assert!(line.starts_with('▁') && line.ends_with('█'), "{line}");
    }

    #[test]
    fn a_flat_history_is_flat_and_an_empty_one_is_empty() {
        assert_eq!(sparkline(&[0.5; 4], 10), "▂▂▂▂");
        assert_eq!(sparkline(&[], 10), "");
        assert_eq!(sparkline(&[f64::NAN], 10), "");
    }
}
