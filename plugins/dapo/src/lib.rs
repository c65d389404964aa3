//! `dapo`: 1 when the response's answer line is the label, by exact mathematics, else -1.
//!
//! The answer is what follows the last `Answer:` (or `answer is`) behind the reasoning, wherever it
//! stands; without one, the last box. See the plugin `math` for how answers are compared.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `answer-style` | `"answer-line"` | `"boxed"`: the last box |
//! | `mode` | `"strict"` | `"verl"`, `"slime"`, `"relax"`: what those projects' `math_dapo` answers, faults included |
//!
//! The modes look at the last 300 characters (100 for `boxed`) and compare texts that their normaliser
//! makes. `slime` and `relax` make the label a whole number, so that `0.9` becomes `0`; a label that is
//! no number, at which they crash, is unscorable. So is a row without a label, in every mode.

mod peer;

use math_core::{Label, Style};
use peer::Dialect;
use whet_plugin::{Configured, FinishReason, Group, Outcome, Reward, reward};

#[derive(Clone, Copy, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Strict,
    Verl,
    Slime,
    Relax,
}

#[derive(Clone, Copy, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AnswerStyle {
    #[default]
    AnswerLine,
    Boxed,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Config {
    answer_style: AnswerStyle,
    mode: Mode,
}

struct Dapo(Config);

impl Configured for Dapo {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "description": "Reads the label: the reference answer. No metadata.",
  "properties": {
    "answer-style": {"enum": ["answer-line", "boxed"], "default": "answer-line", "description": "where the final answer stands: behind 'Answer:', or in \\boxed{}"},
    "mode": {"enum": ["strict", "verl", "slime", "relax"], "default": "strict", "description": "strict: exact mathematics; the others: what those projects' math_dapo answers"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        Ok(Dapo(config))
    }
}

impl Reward for Dapo {
    fn score(&self, group: &Group) -> Vec<Outcome> {
        let Some(label) = &group.label else {
            return group.all(Outcome::unscorable("the row has no label"));
        };
        match self.0.mode {
            Mode::Strict => self.strict(group, label),
            Mode::Verl => self.peer(group, label, Dialect::Verl),
            Mode::Slime | Mode::Relax => self.peer(group, label, Dialect::Slime),
        }
    }
}

reward!(Dapo: Configured);

fn scored(correct: bool) -> Outcome {
    Outcome::scored(if correct { 1.0 } else { -1.0 })
}

impl Dapo {
    fn strict(&self, group: &Group, label: &str) -> Vec<Outcome> {
        let label = match Label::read(label) {
            Ok(label) => label,
            Err(why) => return group.all(Outcome::unscorable(why)),
        };
        let style = match self.0.answer_style {
            AnswerStyle::AnswerLine => Style::AnswerLine,
            AnswerStyle::Boxed => Style::Boxed,
        };
        let graded = group.samples.iter().map(|sample| {
            let verdict = label.grade(&sample.response, style, sample.finish == FinishReason::Length);
            scored(verdict.correct).note(verdict.note)
        });
        graded.collect()
    }

    fn peer(&self, group: &Group, label: &str, dialect: Dialect) -> Vec<Outcome> {
        let normaliser = match peer::Normaliser::new() {
            Ok(normaliser) => normaliser,
            Err(why) => return group.all(Outcome::Failed(whet_plugin::Error::Internal(why))),
        };
        if self.0.answer_style == AnswerStyle::Boxed {
            let right = |text: &str| peer::last_box(peer::tail(peer::tail(text, 300), 100)) == Some(label);
            return group.samples.iter().map(|s| scored(right(&s.response))).collect();
        }
        let Some(label) = normaliser.label(label, dialect) else {
            return group.all(Outcome::unscorable(format!(
                "the label {label:?} is no number, at which the project's grader fails"
            )));
        };
        let graded = group.samples.iter().map(|sample| {
            let answer = normaliser.answer(peer::tail(&sample.response, 300), dialect);
            scored(answer == label).note(format!("answer {answer}"))
        });
        graded.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whet_plugin::testing::{configured, group};

    fn reward(config: &str, label: &str, response: &str) -> Option<f64> {
        let plugin: Dapo = configured(config).unwrap();
        match plugin.score(&group(Some(label), &[response])).remove(0) {
            Outcome::Scored(grade) => Some(grade.components[0].value),
            _ => None,
        }
    }

    #[test]
    fn the_last_answer_line_counts_wherever_it_stands() {
        let far = format!("Answer: 34\n{}", "Checked. ".repeat(60));
        for (label, response, expected) in [
            ("34", far.as_str(), 1.0),
            ("10", "the answer: 5, but no.\nAnswer: 10", 1.0),
            ("5", "the answer: 5, but no.\nAnswer: 10", -1.0),
            ("1/2", "Answer: 0.5", 1.0),
            ("0.9", "Answer: 0", -1.0),
            ("9007199254740993", "Answer: 9007199254740992", -1.0),
            ("34", "**Answer:** $\\boxed{34}$", 1.0),
            ("34", "so \\boxed{34}", 1.0),
            ("34", "<think>Answer: 34", -1.0),
            ("34", "34", -1.0),
        ] {
            assert_eq!(reward("{}", label, response), Some(expected), "{response}");
        }
        assert_eq!(reward(r#"{"answer-style": "boxed"}"#, "34", "Answer: 34"), Some(-1.0));
        assert_eq!(reward("{}", "", "Answer: 1"), None);
    }

    /// Scores that the projects' own functions gave.
    #[test]
    fn compat_modes_repeat_the_peers_faults() {
        let far = format!("Answer: 34\n{}", "Checked. ".repeat(60));
        for (label, response, verl, slime) in [
            ("34", far.as_str(), Some(-1.0), Some(-1.0)),
            ("34", "Answer: 34", Some(1.0), Some(1.0)),
            ("0.9", "Answer: 0", Some(-1.0), Some(1.0)),
            ("1/2", "Answer: 1/2", Some(1.0), None),
            ("34", "**Answer:** 34", Some(-1.0), Some(-1.0)),
            ("34", "Answer: 34 dollars", Some(1.0), Some(1.0)),
            ("34", "Answer: x = 34", Some(1.0), Some(1.0)),
            ("34", "Answer: 34<|im_end|>", Some(-1.0), Some(1.0)),
            ("1024", "Answer: 1,024", Some(1.0), Some(1.0)),
            ("34", "Answer: $\\boxed{34}$", Some(1.0), Some(1.0)),
            ("\\frac{1}{2}", "Answer: \\frac12", Some(1.0), None),
            ("34.0", "Answer: 34", Some(-1.0), Some(1.0)),
            ("9007199254740993", "Answer: 9007199254740992", Some(-1.0), Some(1.0)),
        ] {
            let mode = |mode: &str| reward(&format!("{{\"mode\": \"{mode}\"}}"), label, response);
            assert_eq!(
                (mode("verl"), mode("slime"), mode("relax")),
                (verl, slime, slime),
                "{label} {response}"
            );
        }
        let boxed = |response| reward(r#"{"mode": "verl", "answer-style": "boxed"}"#, "34", response);
        assert_eq!(
            (boxed("\\boxed{34}"), boxed("\\boxed{ 34}"), boxed("34")),
            (Some(1.0), Some(-1.0), Some(-1.0))
        );
    }

    proptest! {
        #[test]
        fn for_every_response_the_score_is_one_or_minus_one(response in "(\\PC|Answer: |\\$|frac|sqrt|[0-9]|\\\\boxed\\{|\\}){0,60}") {
            for mode in ["strict", "verl", "slime"] {
                let score = reward(&format!("{{\"mode\": \"{mode}\"}}"), "34", &response);
                prop_assert!(score == Some(1.0) || score == Some(-1.0));
            }
        }
    }
}
