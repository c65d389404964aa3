//! `gpqa`: 1 when the response chooses the right option of a multiple-choice question, else 0.
//!
//! The right option is the metadata's `correct_letter`, else the label: a letter (`C`, `(C)`,
//! `C. 3.6 eV`), the text of one of the metadata's `choices`, or its index from 0. Letters go as far
//! as there are choices (`valid_letters` without them), to J where the row says neither.
//!
//! Behind the reasoning, and in the last `<answer>` where there is one, the last explicit statement
//! counts: a box, an answer line (`**Answer:** (B)`, `the answer is most likely B`), `B is correct`,
//! a last line that is nothing but an answer; or the text of one option in their place. Where
//! nothing is stated: a first line that is nothing but an answer, a conclusion (`so it must be B`),
//! the only option that is named and not denied, the text of one option in the last sentence. A
//! letter that is an article, a symbol, or denied is no answer. Several letters are wrong unless the
//! label has the same ones. The note says what was chosen.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `mode` | `"strict"` | `"slime"` and `"relax"`: what those projects' graders answer, faults included |
//! | `first-index` | `0` | the number of the first option where labels are numbers |
//!
//! Unscorable: no label, a label that is none of the options, a number that is the text of one
//! option and the index of another.

mod peer;

use choice_core::{Options, Question};
use serde_json::{Map, Value};
use whet_plugin::{Configured, FinishReason, Group, Outcome, Reward, reward};

#[derive(Clone, Copy, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Strict,
    Slime,
    Relax,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Config {
    mode: Mode,
    first_index: u32,
}

struct Gpqa(Config);

impl Configured for Gpqa {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "description": "Reads the label (a letter, the text or the index of an option) and of the metadata: choices, correct_letter, valid_letters, and label or answer where the row has no label.",
  "properties": {
    "mode": {"enum": ["strict", "slime", "relax"], "default": "strict", "description": "strict: what the response says; slime, relax: what those projects' graders answer"},
    "first-index": {"type": "integer", "minimum": 0, "default": 0, "description": "the number of the first option where labels are numbers"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        Ok(Gpqa(config))
    }
}

impl Reward for Gpqa {
    fn score(&self, group: &Group) -> Vec<Outcome> {
        let metadata: Map<String, Value> = match group.metadata_as() {
            Ok(metadata) => metadata,
            Err(why) => return group.all(Outcome::Failed(why)),
        };
        let dialect = match self.0.mode {
            Mode::Strict => {
                let options = Options { first_index: self.0.first_index };
                return match Question::read(group.label.as_deref(), &metadata, options) {
                    Ok(question) if question.is_free_text() => group.all(Outcome::unscorable(
                        "the row has no `choices`, and its label is no letter from A to J: `multiple-choice` compares texts",
                    )),
                    Ok(question) => group.samples.iter().map(|s| grade(&question, s)).collect(),
                    Err(why) => group.all(Outcome::unscorable(why)),
                };
            }
            Mode::Slime => peer::Dialect::Slime,
            Mode::Relax => peer::Dialect::Relax,
        };
        let Some(row) = peer::Row::read(group.label.as_deref(), &metadata, dialect) else {
            return group
                .all(Outcome::unscorable("the row has no label and its metadata no `correct_letter`"));
        };
        group.samples.iter().map(|s| Outcome::correct(row.is_right(&s.response))).collect()
    }
}

fn grade(question: &Question, sample: &whet_plugin::Sample) -> Outcome {
    let verdict = question.grade(&sample.response, sample.finish == FinishReason::Length);
    Outcome::correct(verdict.correct).note(verdict.note)
}

reward!(Gpqa: Configured);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whet_plugin::testing::{configured, group};

    fn outcome(config: &str, label: Option<&str>, metadata: &str, response: &str) -> Option<f64> {
        let plugin: Gpqa = configured(config).unwrap();
        let mut group = group(label, &[response]);
        group.metadata = metadata.to_owned();
        match plugin.score(&group).remove(0) {
            Outcome::Scored(grade) => Some(grade.components[0].value),
            _ => None,
        }
    }

    /// The cases of public bug reports, disputable ones as the documentation decides them.
    #[test]
    fn every_case_of_the_bug_reports_is_right() {
        let mut cases = 0;
        for line in include_str!("../tests/cases.jsonl").lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let input = case["input"].as_object().unwrap();
            let label = input.get("correct_letter").and_then(Value::as_str);
            let metadata = Value::Object(input.clone()).to_string();
            let response = input["response"].as_str().unwrap();
            let got = outcome("{}", label, &metadata, response).expect("scored");
            assert_eq!(got == 1.0, case["expected"].as_bool().unwrap(), "{}", case["id"]);
            cases += 1;
        }
        assert!(cases >= 24);
    }

    #[test]
    fn a_row_without_a_right_option_is_unscorable() {
        for (label, metadata) in [(None, "{}"), (Some("E"), r#"{"choices": ["a", "b"]}"#), (Some(" "), "{}")]
        {
            assert_eq!(outcome("{}", label, metadata, "A"), None, "{label:?}");
        }
        for label in ["proof", "(see above)", "see above", "K", "Z", "11", "Paris"] {
            assert_eq!(outcome("{}", Some(label), "{}", &format!("Answer: {label}")), None, "{label}");
        }
        assert_eq!(outcome(r#"{"mode": "slime"}"#, None, "{}", "A"), None);
    }

    #[test]
    fn numbers_count_from_where_the_recipe_says() {
        let metadata = r#"{"choices": ["w", "x", "y", "z"]}"#;
        assert_eq!(outcome("{}", Some("1"), metadata, "Answer: B"), Some(1.0));
        assert_eq!(outcome(r#"{"first-index": 1}"#, Some("1"), metadata, "Answer: A"), Some(1.0));
        assert!(configured::<Gpqa>(r#"{"mode": "loose"}"#).is_err());
    }

    /// Scores that the projects' own functions gave.
    #[test]
    fn compat_modes_repeat_the_peers_faults() {
        let metadata = r#"{"choices": ["1 K", "5 K", "15 K", "50 K"]}"#;
        for (response, label, slime, relax) in [
            ("The answer is clearly D", "C", 1.0, 1.0),
            ("The answer is clearly D", "D", 0.0, 0.0),
            ("Answer seems to be A.", "A", 1.0, 1.0),
            ("A photon of that energy cannot be absorbed.", "A", 1.0, 1.0),
            ("\\boxed{A}\n\nNote that B is a common mistake here.", "A", 0.0, 0.0),
            ("It comes out as 15 K.", "B", 0.0, 1.0),
            ("i cannot determine the answer.", "A", 0.0, 1.0),
            ("<think>Answer: C", "C", 1.0, 1.0),
        ] {
            let mode =
                |mode: &str| outcome(&format!("{{\"mode\": \"{mode}\"}}"), Some(label), metadata, response);
            assert_eq!((mode("slime"), mode("relax")), (Some(slime), Some(relax)), "{response} {label}");
        }
    }

    proptest! {
        #[test]
        fn for_every_response_there_is_a_score(response in "\\PC{0,60}", label in "[A-D]") {
            for config in ["{}", r#"{"mode": "slime"}"#, r#"{"mode": "relax"}"#] {
                let scored = outcome(config, Some(&label), r#"{"choices": ["a b", "c", "d", "e"]}"#, &response);
                prop_assert!(scored.is_some());
            }
        }
    }
}
