//! `difficulty`: a filter that keeps groups whose pass rate lies in a window.
//!
//! A response passes when its reward is at least `pass`; the pass rate is the part of the group's
//! scored responses that pass. Prompts that the model nearly always or nearly never solves teach
//! little; a window such as 0.2 to 0.8 keeps the others (the accuracy filter of PRIME,
//! arXiv 2502.01456). Samples without a score do not count.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `min` | `0` | lowest pass rate that is kept |
//! | `max` | `1` | highest pass rate that is kept |
//! | `pass` | `1` | reward from which a response passes |
//! | `keep-if-short` | `false` | use groups outside of the window when too few are inside |
//!
//! At least one of `min` and `max` must be given, since the whole range keeps everything.
//!
//! | reason | when | used if too few groups pass |
//! |---|---|---|
//! | `kept` | the pass rate is in the window | - |
//! | `too-hard` | it is below `min` | as `keep-if-short` says |
//! | `too-easy` | it is above `max` | as `keep-if-short` says |
//! | `no-scores` | no response has a score | no |
//!
//! ```toml
//! [[filter]]
//! plugin = "difficulty"
//! config = { min = 0.2, max = 0.8 }
//! ```
//!
//! It keeps every row.

use whet_plugin::{Configured, Error, Filter, ScoredGroup, Verdict, filter};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Config {
    min: Option<f64>,
    max: Option<f64>,
    #[serde(default = "one")]
    pass: f64,
    #[serde(default)]
    keep_if_short: bool,
}

fn one() -> f64 {
    1.0
}

struct Difficulty {
    min: f64,
    max: f64,
    pass: f64,
    keep_if_short: bool,
}

impl Configured for Difficulty {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "properties": {
    "min": {"type": "number", "minimum": 0, "maximum": 1, "description": "lowest pass rate that is kept"},
    "max": {"type": "number", "minimum": 0, "maximum": 1, "description": "highest pass rate that is kept"},
    "pass": {"type": "number", "default": 1, "description": "reward from which a response passes"},
    "keep-if-short": {"type": "boolean", "default": false, "description": "use groups outside of the window when too few are inside"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        if config.min.is_none() && config.max.is_none() {
            return Err("give `min`, `max` or both: without them every group is kept".into());
        }
        let (min, max) = (config.min.unwrap_or(0.0), config.max.unwrap_or(1.0));
        if !(0.0..=1.0).contains(&min) || !(0.0..=1.0).contains(&max) || min > max {
            return Err(format!("the window must lie between 0 and 1, from low to high, not {min} to {max}"));
        }
        if !config.pass.is_finite() {
            return Err("`pass` must be a number".into());
        }
        Ok(Difficulty { min, max, pass: config.pass, keep_if_short: config.keep_if_short })
    }
}

impl Filter for Difficulty {
    fn keep_groups(&self, groups: &[ScoredGroup]) -> Result<Vec<Verdict>, Error> {
        Ok(groups.iter().map(|group| self.verdict(&group.rewards)).collect())
    }
}

filter!(Difficulty: Configured);

impl Difficulty {
    fn verdict(&self, rewards: &[Option<f64>]) -> Verdict {
        let scores: Vec<f64> = rewards.iter().flatten().copied().collect();
        if scores.is_empty() {
            return Verdict::drop("no-scores");
        }
        let passed = scores.iter().filter(|score| **score >= self.pass).count();
        let rate = passed as f64 / scores.len() as f64;
        let outside =
            |reason| if self.keep_if_short { Verdict::spare(reason) } else { Verdict::drop(reason) };
        if rate < self.min {
            outside("too-hard")
        } else if rate > self.max {
            outside("too-easy")
        } else {
            Verdict::keep()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whet_plugin::testing::{configured, group};

    fn reasons(config: &str, groups: &[&[Option<f64>]]) -> Vec<(String, bool)> {
        let scored: Vec<ScoredGroup> = groups
            .iter()
            .map(|rewards| ScoredGroup { group: group(None, &["a"]), rewards: rewards.to_vec() })
            .collect();
        let verdicts = configured::<Difficulty>(config).unwrap().keep_groups(&scored).unwrap();
        verdicts.into_iter().map(|v| (v.reason, v.keep_if_short)).collect()
    }

    #[test]
    fn the_window_includes_its_ends_and_counts_only_scores() {
        let half: &[Option<f64>] = &[Some(1.0), Some(0.0), None, None];
        let all: &[Option<f64>] = &[Some(1.0), Some(2.0)];
        let none: &[Option<f64>] = &[Some(0.0), Some(0.9)];
        let unscored: &[Option<f64>] = &[None, None];
        let found = reasons(r#"{"min": 0.5, "max": 0.5}"#, &[half, all, none, unscored, &[]]);
        let found: Vec<&str> = found.iter().map(|(reason, _)| reason.as_str()).collect();
        assert_eq!(found, ["kept", "too-easy", "too-hard", "no-scores", "no-scores"]);
    }

    #[test]
    fn what_passes_is_the_recipes_choice() {
        let group: &[Option<f64>] = &[Some(-0.1), Some(-0.6)];
        assert_eq!(reasons(r#"{"min": 0.1, "pass": -0.5}"#, &[group])[0].0, "kept");
        assert_eq!(reasons(r#"{"min": 0.1, "pass": 0}"#, &[group])[0].0, "too-hard");
    }

    #[test]
    fn groups_outside_fill_a_short_batch_only_where_the_recipe_says_so() {
        let easy: &[Option<f64>] = &[Some(1.0)];
        assert_eq!(reasons(r#"{"max": 0.9}"#, &[easy]), [("too-easy".to_owned(), false)]);
        let spare = reasons(r#"{"max": 0.9, "keep-if-short": true}"#, &[easy, &[None]]);
        assert_eq!(spare, [("too-easy".to_owned(), true), ("no-scores".to_owned(), false)]);
    }

    #[test]
    fn a_window_that_keeps_all_or_nothing_is_refused() {
        for config in ["{}", r#"{"min": 0.8, "max": 0.2}"#, r#"{"min": 2}"#, r#"{"mni": 0.2}"#] {
            assert!(configured::<Difficulty>(config).is_err(), "{config}");
        }
    }
}
