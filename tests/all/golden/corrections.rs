//! Weights for tokens of another policy.

use super::format::{Case, Check, Numbers};
use whet_algorithm::{Bounds, Correction, Level, Outside};

pub fn check(name: &str) -> Option<Check> {
    Some(match name {
        "rc_tis_trl" => tis_trl,
        _ => return None,
    })
}

fn tis_trl(case: &Case) -> Result<Numbers, String> {
    let mode = case.text("mode");
    let level = if mode.starts_with("sequence") { Level::Sequence } else { Level::Token };
    let outside = if mode.ends_with("mask") { Outside::Zero } else { Outside::Bound };
    let bounds = Bounds { low: case.maybe("lo"), high: case.maybe("hi") };
    let correction = Correction { level, bounds, outside, clamp_log: None };
    let (old, rollout) = (case.rows("old_log_prob"), case.rows("rollout_log_prob"));
    let mut ratio = Vec::new();
    for (s, mask) in case.mask().iter().enumerate() {
        let weights = correction.weights(&old[s], &rollout[s], mask);
        // TRL keeps one number per sequence at sequence level.
        ratio.extend(if level == Level::Sequence { &weights[..1] } else { &weights[..] });
    }
    Ok(vec![("ratio".into(), ratio)])
}
