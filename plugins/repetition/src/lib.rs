//! `repetition`: a penalty for n-grams that come again.
//!
//! `reward = -penalty * (1 - distinct / total)` over all runs of `n` words: 0 when none comes twice,
//! near `-penalty` when the response says one thing over and over. A response of fewer than `n` words
//! has none and scores 0. Source: arXiv 2502.03373, appendix C.2, as open-r1 and TRL have it (their
//! `max_penalty` is `-penalty`, their `ngram_size` is `n`).
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `n` | `3` | words of an n-gram, 1 to 64 |
//! | `penalty` | `1` | for a response that is all repetition |
//! | `unit` | `"words"` | what stands between blanks, in lower case; `"characters"`: for text without blanks |
//!
//! Needs no label. Nothing is unscorable.

use std::collections::HashSet;
use whet_plugin::{Configured, Group, Outcome, Reward, reward};

/// N-grams longer than this are no sign of repetition.
const MAX_N: usize = 64;

#[derive(Clone, Copy, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unit {
    #[default]
    Words,
    Characters,
}

#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    n: usize,
    penalty: f64,
    unit: Unit,
}

impl Default for Config {
    fn default() -> Self {
        Config { n: 3, penalty: 1.0, unit: Unit::Words }
    }
}

struct Repetition(Config);

impl Configured for Repetition {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "description": "Reads neither label nor metadata.",
  "properties": {
    "n": {"type": "integer", "minimum": 1, "maximum": 64, "default": 3, "description": "words of an n-gram"},
    "penalty": {"type": "number", "exclusiveMinimum": 0, "default": 1, "description": "for a response that is all repetition"},
    "unit": {"enum": ["words", "characters"], "default": "words"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        if !(1..=MAX_N).contains(&config.n) {
            return Err(format!("`n` must be from 1 to {MAX_N}, not {}", config.n));
        }
        if !(config.penalty.is_finite() && config.penalty > 0.0) {
            return Err(format!("`penalty` must be above 0, not {}", config.penalty));
        }
        Ok(Repetition(config))
    }
}

impl Reward for Repetition {
    fn score(&self, group: &Group) -> Vec<Outcome> {
        group.samples.iter().map(|sample| self.grade(&sample.response)).collect()
    }
}

reward!(Repetition: Configured);

impl Repetition {
    fn grade(&self, response: &str) -> Outcome {
        let lower = response.to_lowercase();
        let (distinct, total) = match self.0.unit {
            Unit::Words => counts(&lower.split_whitespace().collect::<Vec<_>>(), self.0.n),
            Unit::Characters => {
                counts(&lower.chars().filter(|c| !c.is_whitespace()).collect::<Vec<_>>(), self.0.n)
            }
        };
        if total == 0 {
            return Outcome::scored(0.0).note(format!("fewer than {} {}", self.0.n, self.unit()));
        }
        // 0 - x, so that no repetition is 0 and not -0.
        Outcome::scored(0.0 - self.0.penalty * (1.0 - distinct as f64 / total as f64))
            .note(format!("{} of {total} n-grams come again", total - distinct))
    }

    fn unit(&self) -> &'static str {
        match self.0.unit {
            Unit::Words => "words",
            Unit::Characters => "characters",
        }
    }
}

/// How many different runs of `n` there are, and how many in all.
fn counts<T: Eq + std::hash::Hash>(items: &[T], n: usize) -> (usize, usize) {
    let runs: HashSet<&[T]> = items.windows(n).collect();
    (runs.len(), items.len().saturating_sub(n - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whet_plugin::testing::configured;

    fn value(config: &str, response: &str) -> f64 {
        match configured::<Repetition>(config).unwrap().grade(response) {
            Outcome::Scored(grade) => grade.components[0].value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_penalty_is_the_share_of_n_grams_that_come_again() {
        for (config, response, expected) in [
            ("{}", "a b c d e", 0.0),
            ("{}", "a b", 0.0),
            ("{}", "", 0.0),
            ("{}", "a b c a b c", -0.25),
            (r#"{"n": 1}"#, "The the THE cat", -0.5),
            (r#"{"n": 2, "penalty": 0.5}"#, "a a a a a", -0.375),
            (r#"{"unit": "characters", "n": 2}"#, "北京北京", -1.0 / 3.0),
        ] {
            assert!((value(config, response) - expected).abs() < 1e-12, "{config} {response}");
        }
        for config in [r#"{"n": 0}"#, r#"{"n": 65}"#, r#"{"penalty": -1}"#, r#"{"m": 1}"#] {
            assert!(configured::<Repetition>(config).is_err(), "{config}");
        }
    }

    proptest! {
        #[test]
        fn for_every_response_the_value_lies_between_the_penalty_and_zero_and_saying_it_twice_costs_more(
            words in prop::collection::vec("[a-z]{1,4}", 1..30), n in 1usize..6
        ) {
            let config = format!(r#"{{"n": {n}}}"#);
            let (text, twice) = (words.join(" "), [words.join(" "), words.join(" ")].join(" "));
            let once = value(&config, &text);
            prop_assert!((-1.0..=0.0).contains(&once) && !(once == 0.0 && once.is_sign_negative()));
            if words.len() >= n {
                prop_assert!(value(&config, &twice) < once);
            }
        }
    }
}
