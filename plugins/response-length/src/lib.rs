//! `response-length`: a filter that keeps groups whose responses have a length within bounds.
//!
//! (The plugin `length` is a reward: it pays for a length, this one chooses by it.)
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `min` | `0` | shortest length that is kept |
//! | `max` | none | longest length that is kept |
//! | `unit` | `"tokens"` | or `"characters"` of the response |
//! | `of` | `"mean"` | the group's mean length; `"every"` response must be within; `"any"` of them must be |
//! | `max-cut-off` | `1` | largest part of the group that may end at `rollout.max-tokens` |
//! | `keep-if-short` | `false` | use groups outside of the bounds when too few are inside |
//!
//! At least one of `min`, `max` and `max-cut-off` must be given. A group whose responses are mostly
//! cut off says more about the limit than about the model: `max-cut-off = 0.5` leaves it out.
//!
//! | reason | when |
//! |---|---|
//! | `cut-off` | more responses are cut off than allowed |
//! | `response-too-short` | the length is below `min` (with `every` or `any`: of the first response outside) |
//! | `response-too-long` | it is above `max` |
//!
//! It keeps every row.

use whet_plugin::{Configured, Error, Filter, FinishReason, Sample, ScoredGroup, Verdict, filter};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Config {
    min: Option<u64>,
    max: Option<u64>,
    #[serde(default)]
    unit: Unit,
    #[serde(default)]
    of: Of,
    max_cut_off: Option<f64>,
    #[serde(default)]
    keep_if_short: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unit {
    #[default]
    Tokens,
    Characters,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Of {
    #[default]
    Mean,
    Every,
    Any,
}

struct ResponseLength(Config);

impl Configured for ResponseLength {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "properties": {
    "min": {"type": "integer", "minimum": 0, "description": "shortest length that is kept"},
    "max": {"type": "integer", "minimum": 0, "description": "longest length that is kept"},
    "unit": {"enum": ["tokens", "characters"], "default": "tokens"},
    "of": {"enum": ["mean", "every", "any"], "default": "mean", "description": "which responses must be within the bounds"},
    "max-cut-off": {"type": "number", "minimum": 0, "maximum": 1, "description": "largest part of the group that may end at the token limit"},
    "keep-if-short": {"type": "boolean", "default": false, "description": "use groups outside of the bounds when too few are inside"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        if config.min.is_none() && config.max.is_none() && config.max_cut_off.is_none() {
            return Err("give `min`, `max` or `max-cut-off`: without them every group is kept".into());
        }
        if let (Some(min), Some(max)) = (config.min, config.max)
            && min > max
        {
            return Err(format!("`min` = {min} is above `max` = {max}: no group would be kept"));
        }
        if config.max_cut_off.is_some_and(|part| !(0.0..=1.0).contains(&part)) {
            return Err("`max-cut-off` is a part, from 0 to 1".into());
        }
        Ok(ResponseLength(config))
    }
}

impl Filter for ResponseLength {
    fn keep_groups(&self, groups: &[ScoredGroup]) -> Result<Vec<Verdict>, Error> {
        let verdict = |group: &ScoredGroup| match self.objection(&group.group.samples) {
            None => Verdict::keep(),
            Some(reason) if self.0.keep_if_short => Verdict::spare(reason),
            Some(reason) => Verdict::drop(reason),
        };
        Ok(groups.iter().map(verdict).collect())
    }
}

filter!(ResponseLength: Configured);

impl ResponseLength {
    /// Why the group is not kept.
    fn objection(&self, samples: &[Sample]) -> Option<&'static str> {
        if samples.is_empty() {
            return None;
        }
        let cut_off = samples.iter().filter(|s| s.finish == FinishReason::Length).count();
        if self.0.max_cut_off.is_some_and(|most| cut_off as f64 > most * samples.len() as f64) {
            return Some("cut-off");
        }
        let lengths: Vec<f64> = samples.iter().map(|sample| self.length(sample) as f64).collect();
        let objections: Vec<&str> = match self.0.of {
            Of::Mean => {
                self.outside(lengths.iter().sum::<f64>() / lengths.len() as f64).into_iter().collect()
            }
            Of::Every | Of::Any => lengths.iter().filter_map(|length| self.outside(*length)).collect(),
        };
        match self.0.of {
            Of::Any if objections.len() < samples.len() => None,
            _ => objections.first().copied(),
        }
    }

    fn outside(&self, length: f64) -> Option<&'static str> {
        if self.0.min.is_some_and(|min| length < min as f64) {
            return Some("response-too-short");
        }
        self.0.max.is_some_and(|max| length > max as f64).then_some("response-too-long")
    }

    fn length(&self, sample: &Sample) -> u64 {
        match self.0.unit {
            Unit::Tokens => u64::from(sample.response_tokens),
            Unit::Characters => sample.response.chars().count() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whet_plugin::testing::{configured, group};

    fn verdict(config: &str, responses: &[&str], cut_off: usize) -> Verdict {
        let mut group = group(None, responses);
        for sample in &mut group.samples[..cut_off] {
            sample.finish = FinishReason::Length;
        }
        let scored = ScoredGroup { group, rewards: vec![None; responses.len()] };
        configured::<ResponseLength>(config).unwrap().keep_groups(&[scored]).unwrap().remove(0)
    }

    #[test]
    fn bounds_hold_for_the_mean_for_every_or_for_any_response() {
        // Lengths of 1, 2 and 6 tokens: 3 on average.
        let responses = ["a", "a b", "a b c d e f"];
        for (config, reason) in [
            (r#"{"min": 3, "max": 3}"#, "kept"),
            (r#"{"max": 2}"#, "response-too-long"),
            (r#"{"min": 4}"#, "response-too-short"),
            (r#"{"min": 2, "of": "every"}"#, "response-too-short"),
            (r#"{"max": 6, "of": "every"}"#, "kept"),
            (r#"{"min": 2, "max": 3, "of": "any"}"#, "kept"),
            (r#"{"min": 3, "max": 5, "of": "any"}"#, "response-too-short"),
            (r#"{"max": 5, "unit": "characters"}"#, "kept"),
            (r#"{"max": 4, "unit": "characters"}"#, "response-too-long"),
        ] {
            assert_eq!(verdict(config, &responses, 0).reason, reason, "{config}");
        }
    }

    #[test]
    fn a_group_that_is_mostly_cut_off_is_dropped() {
        let half = r#"{"max-cut-off": 0.5}"#;
        assert_eq!(verdict(half, &["a", "b", "c", "d"], 2).reason, "kept");
        assert_eq!(verdict(half, &["a", "b", "c", "d"], 3).reason, "cut-off");
    }

    #[test]
    fn only_where_the_recipe_says_so_a_dropped_group_fills_a_short_batch() {
        assert!(!verdict(r#"{"max": 1}"#, &["a b"], 0).keep_if_short);
        assert!(verdict(r#"{"max": 1, "keep-if-short": true}"#, &["a b"], 0).keep_if_short);
    }

    #[test]
    fn bounds_that_keep_all_or_nothing_are_refused() {
        for config in ["{}", r#"{"min": 9, "max": 5}"#, r#"{"max-cut-off": 2}"#, r#"{"of": "all", "max": 1}"#]
        {
            assert!(configured::<ResponseLength>(config).is_err(), "{config}");
        }
    }
}
