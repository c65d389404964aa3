//! `deepscaler`: 1 when the last box behind the reasoning is the label, by exact mathematics, else 0.
//!
//! A label may itself be a box, or stand in a worked solution that ends with one. See the plugin
//! `math` for how answers are compared.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `mode` | `"strict"` | `"slime"`, `"relax"`: those projects' rules (both have DeepScaleR's) |
//!
//! The modes give 0 to a response without `</think>` or `###Response`, whatever it answers; they also
//! take for equal what the MATH data set's normaliser does, which deletes units, degrees and percent
//! signs. Where those projects ask sympy, the modes ask the exact mathematics of `strict`.
//!
//! Unscorable: no label, or one that cannot be read.

use answer_text::boxes;
use math_core::{Label, Style, hendrycks};
use whet_plugin::{Configured, FinishReason, Group, Outcome, Reward, Sample, reward};

#[derive(Clone, Copy, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Strict,
    Slime,
    Relax,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    mode: Mode,
}

struct DeepScaler(Mode);

impl Configured for DeepScaler {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "description": "Reads the label: the reference answer, or a text that ends with it in a box. No metadata.",
  "properties": {
    "mode": {"enum": ["strict", "slime", "relax"], "default": "strict", "description": "strict: exact mathematics; slime, relax: those projects' rules"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        Ok(DeepScaler(config.mode))
    }
}

impl Reward for DeepScaler {
    fn score(&self, group: &Group) -> Vec<Outcome> {
        let Some(label) = &group.label else {
            return group.all(Outcome::unscorable("the row has no label"));
        };
        let boxed = boxes(label).last().and_then(|b| b.inside);
        let text = boxed.unwrap_or(label);
        let label = match Label::read(text) {
            Ok(label) => label,
            Err(why) => return group.all(Outcome::unscorable(why)),
        };
        let graded = group.samples.iter().map(|sample| match self.0 {
            Mode::Strict => {
                let verdict =
                    label.grade(&sample.response, Style::Boxed, sample.finish == FinishReason::Length);
                Outcome::correct(verdict.correct).note(verdict.note)
            }
            Mode::Slime | Mode::Relax => peer(&label, text, sample),
        });
        graded.collect()
    }
}

reward!(DeepScaler: Configured);

/// Source: slime `rm_hub/deepscaler.py` (2026).
fn peer(label: &Label, text: &str, sample: &Sample) -> Outcome {
    let response = &sample.response;
    let behind = match response.rsplit_once("</think>") {
        Some((_, behind)) => behind,
        None => match response.split("###Response").nth(1) {
            Some(behind) => behind,
            None => return Outcome::correct(false).note("no answer: neither </think> nor ###Response"),
        },
    };
    let last = boxes(behind).into_iter().rev().find(|b| behind[b.start..].starts_with("\\boxed{"));
    let Some(answer) = last.and_then(|b| b.inside) else {
        return Outcome::correct(false).note("no answer: no \\boxed{}");
    };
    let shown: String = answer.trim().chars().take(120).collect();
    let right = hendrycks::equal_mathd(answer, text) || label.is(answer);
    Outcome::correct(right).note(format!("answer {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whet_plugin::testing::{configured, group};

    fn reward(config: &str, label: Option<&str>, response: &str) -> Option<f64> {
        let plugin: DeepScaler = configured(config).unwrap();
        match plugin.score(&group(label, &[response])).remove(0) {
            Outcome::Scored(grade) => Some(grade.components[0].value),
            _ => None,
        }
    }

    #[test]
    fn the_last_box_behind_the_reasoning_counts() {
        for (label, response, strict, slime) in [
            ("4", "<think>\\boxed{3}</think>\\boxed{4}", 1.0, 1.0),
            ("3", "<think>\\boxed{3}</think>\\boxed{4}", 0.0, 0.0),
            ("\\boxed{4}", "</think>\\boxed{4}", 1.0, 1.0),
            ("0.5", "</think>\\boxed{\\frac{1}{2}}", 1.0, 1.0),
            // What the projects refuse or let pass.
            ("64", "So the total is \\boxed{64}", 1.0, 0.0),
            ("5\\text{ hours}", "</think>\\boxed{5\\text{ minutes}}", 0.0, 1.0),
            ("4", "###Response\\boxed{4}", 1.0, 1.0),
            ("4", "</think>4", 0.0, 0.0),
            ("4", "</think>\\boxed{4", 0.0, 0.0),
        ] {
            assert_eq!(reward("{}", Some(label), response), Some(strict), "strict {response}");
            for mode in ["slime", "relax"] {
                let config = format!("{{\"mode\": \"{mode}\"}}");
                assert_eq!(reward(&config, Some(label), response), Some(slime), "{mode} {response}");
            }
        }
        for label in [None, Some(""), Some("proof"), Some("\\frac{1}{2")] {
            assert_eq!(reward("{}", label, "\\boxed{1}"), None);
        }
    }

    proptest! {
        #[test]
        fn for_every_response_there_is_a_score(response in "(\\PC|</think>|\\\\boxed\\{|\\}|[0-9]){0,40}") {
            for config in ["{}", r#"{"mode": "slime"}"#] {
                let score = reward(config, Some("4"), &response);
                prop_assert!(score == Some(0.0) || score == Some(1.0));
            }
        }
    }
}
