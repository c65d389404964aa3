//! `length`: a penalty for responses that miss a target length.
//!
//! `reward = -penalty * min(1, miss / target)`, where `miss` is by how much the response is on the
//! wrong side of the target; 0 when it is not. The value lies between `-penalty` and 0, so that it
//! can be added to a reward for being right without drowning it.
//!
//! Configuration:
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `target` | required | length, at least 1 |
//! | `unit` | `"tokens"` | or `"characters"` (Unicode scalar values of the last message) |
//! | `mode` | `"at-most"` | or `"at-least"`, `"exactly"` |
//! | `penalty` | `1` | for missing by the whole target or more |
//!
//! ```toml
//! [reward]
//! plugin = "length"
//! config = { target = 64, mode = "at-most", penalty = 0.5 }
//! ```

use whet_plugin::{Configured, Group, Outcome, Reward, Sample, reward};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    target: u32,
    #[serde(default)]
    unit: Unit,
    #[serde(default)]
    mode: Mode,
    #[serde(default = "one")]
    penalty: f64,
}

fn one() -> f64 {
    1.0
}

#[derive(Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unit {
    #[default]
    Tokens,
    Characters,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    #[default]
    AtMost,
    AtLeast,
    Exactly,
}

struct Length(Config);

impl Configured for Length {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "description": "Reads neither label nor metadata.",
  "properties": {
    "target": {"type": "integer", "minimum": 1, "description": "the length to keep to"},
    "unit": {"enum": ["tokens", "characters"], "default": "tokens"},
    "mode": {"enum": ["at-most", "at-least", "exactly"], "default": "at-most"},
    "penalty": {"type": "number", "exclusiveMinimum": 0, "default": 1, "description": "for missing by the whole target or more"}
  },
  "required": ["target"],
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        if config.target == 0 {
            return Err("`target` must be at least 1".into());
        }
        if !(config.penalty.is_finite() && config.penalty > 0.0) {
            return Err(format!("`penalty` must be above 0, not {}", config.penalty));
        }
        Ok(Length(config))
    }
}

impl Reward for Length {
    fn score(&self, group: &Group) -> Vec<Outcome> {
        group.samples.iter().map(|sample| self.grade(sample)).collect()
    }
}

reward!(Length: Configured);

impl Length {
    fn grade(&self, sample: &Sample) -> Outcome {
        let (length, unit) = match self.0.unit {
            Unit::Tokens => (u64::from(sample.response_tokens), "tokens"),
            Unit::Characters => (sample.response.chars().count() as u64, "characters"),
        };
        let target = u64::from(self.0.target);
        let miss = match self.0.mode {
            Mode::AtMost => length.saturating_sub(target),
            Mode::AtLeast => target.saturating_sub(length),
            Mode::Exactly => length.abs_diff(target),
        };
        let share = (miss as f64 / target as f64).min(1.0);
        // 0 - x, so that a perfect length is 0 and not -0.
        Outcome::scored(0.0 - self.0.penalty * share).note(format!("{length} {unit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whet_plugin::testing::{configured, sample};

    fn value(config: &str, response: &str) -> f64 {
        match configured::<Length>(config).unwrap().grade(&sample("s", response)) {
            Outcome::Scored(grade) => grade.components[0].value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_penalty_grows_with_the_miss_and_ends_at_its_size() {
        let cases = [
            (r#"{"target": 4}"#, "a b c", 0.0),
            (r#"{"target": 4}"#, "a b c d", 0.0),
            (r#"{"target": 4}"#, "a b c d e", -0.25),
            (r#"{"target": 1}"#, "a b c d e", -1.0),
            (r#"{"target": 4, "mode": "at-least", "penalty": 2}"#, "a b", -1.0),
            (r#"{"target": 4, "mode": "at-least"}"#, "a b c d e", 0.0),
            (r#"{"target": 4, "mode": "exactly"}"#, "a b c d e", -0.25),
            (r#"{"target": 4, "mode": "exactly"}"#, "a b c", -0.25),
            (r#"{"target": 4, "unit": "characters"}"#, "äöüßé", -0.25),
        ];
        for (config, response, expected) in cases {
            assert_eq!(value(config, response), expected, "{config} {response}");
        }
    }

    #[test]
    fn settings_that_mean_nothing_are_refused() {
        for config in ["{}", r#"{"target": 0}"#, r#"{"target": 3, "penalty": 0}"#, r#"{"target": -3}"#] {
            assert!(configured::<Length>(config).is_err(), "{config}");
        }
    }

    proptest! {
        #[test]
        fn for_every_response_the_value_lies_between_the_penalty_and_zero(
            response in "\\PC{0,60}", target in 1u32..50, mode in 0usize..3
        ) {
            let mode = ["at-most", "at-least", "exactly"][mode];
            let config = format!(r#"{{"target": {target}, "mode": "{mode}", "unit": "characters", "penalty": 0.5}}"#);
            let value = value(&config, &response);
            prop_assert!((-0.5..=0.0).contains(&value) && !value.is_sign_negative() || value < 0.0, "{value}");
        }
    }
}
