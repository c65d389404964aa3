//! `multiple-choice`: 1 when the response chooses the right option, by letter or by text, else 0.
//!
//! The same reading as [`gpqa`](../gpqa), for questions of any kind: with the metadata's `choices`
//! (or `options`: a list, an object `{"A": "…"}`, or ARC's `text` and `label` lists) the label is a
//! letter, an option's name, text or index. Without them a label that is no letter (`cat`,
//! `<answer>cat</answer>`) is compared with the text of the response's answer: its last `<answer>`,
//! else its last box, else all of it; case, marks and spacing do not matter, formulas are compared
//! as formulas.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `mode` | `"strict"` | `"relax"`: the first `<answer>` of the response equals that of the label, faults included |
//! | `first-index` | `0` | the number of the first option where labels are numbers |
//!
//! Unscorable: as `gpqa`. In `relax`, a label without `<answer>` is `""`, as there: it equals every
//! response without one.

use choice_core::{Options, Question};
use serde_json::{Map, Value};
use whet_plugin::{Configured, FinishReason, Group, Outcome, Reward, reward};

#[derive(Clone, Copy, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Strict,
    Relax,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Config {
    mode: Mode,
    first_index: u32,
}

struct MultipleChoice(Config);

impl Configured for MultipleChoice {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "description": "Reads the label (a letter, the text or the index of an option; any text without options) and of the metadata: choices or options, correct_letter, valid_letters, and label or answer where the row has no label.",
  "properties": {
    "mode": {"enum": ["strict", "relax"], "default": "strict", "description": "strict: what the response says; relax: the first <answer> of response and label are equal texts"},
    "first-index": {"type": "integer", "minimum": 0, "default": 0, "description": "the number of the first option where labels are numbers"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        Ok(MultipleChoice(config))
    }
}

impl Reward for MultipleChoice {
    fn score(&self, group: &Group) -> Vec<Outcome> {
        if let Mode::Relax = self.0.mode {
            let Some(label) = &group.label else {
                return group.all(Outcome::unscorable("the row has no label"));
            };
            let label = first_tag(label);
            return group.samples.iter().map(|s| Outcome::correct(first_tag(&s.response) == label)).collect();
        }
        let metadata: Map<String, Value> = match group.metadata_as() {
            Ok(metadata) => metadata,
            Err(why) => return group.all(Outcome::Failed(why)),
        };
        let options = Options { first_index: self.0.first_index };
        match Question::read(group.label.as_deref(), &metadata, options) {
            Ok(question) => {
                let graded = group.samples.iter().map(|sample| {
                    let verdict = question.grade(&sample.response, sample.finish == FinishReason::Length);
                    Outcome::correct(verdict.correct).note(verdict.note)
                });
                graded.collect()
            }
            Err(why) => group.all(Outcome::unscorable(why)),
        }
    }
}

/// What Relax takes: the inside of the first `<answer>`, or nothing (`multiple_choice.py`, 2026).
fn first_tag(text: &str) -> &str {
    let inside = text.split_once("<answer>").and_then(|(_, rest)| rest.split_once("</answer>"));
    inside.map_or("", |(inside, _)| inside.trim())
}

reward!(MultipleChoice: Configured);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whet_plugin::testing::{configured, group};

    fn outcome(config: &str, label: Option<&str>, metadata: &str, response: &str) -> Option<f64> {
        let plugin: MultipleChoice = configured(config).unwrap();
        let mut group = group(label, &[response]);
        group.metadata = metadata.to_owned();
        match plugin.score(&group).remove(0) {
            Outcome::Scored(grade) => Some(grade.components[0].value),
            _ => None,
        }
    }

    #[test]
    fn options_are_letters_names_texts_or_free() {
        let list = r#"{"choices": ["cat", "dog", "a bird"]}"#;
        let arc = r#"{"choices": {"text": ["cat", "dog"], "label": ["1", "2"]}}"#;
        for (label, metadata, response, expected) in [
            ("B", list, "<answer>B</answer>", 1.0),
            ("B", list, "<answer>dog</answer>", 1.0),
            ("dog", list, "The answer is (B).", 1.0),
            ("<answer>B</answer>", list, "<answer> B. dog </answer>", 1.0),
            ("B", list, "<answer>A</answer>", 0.0),
            ("B", list, "<answer>A or B or C</answer>", 0.0),
            ("C", list, "Answer: a bird", 1.0),
            ("2", arc, "Answer: dog", 1.0),
            ("B", r#"{"options": {"A": "cat", "B": "dog"}}"#, "dog", 1.0),
            ("cat", "{}", "<think>dog</think><answer>Cat.</answer>", 1.0),
            ("cat", "{}", "<answer>category</answer>", 0.0),
            ("cat", "{}", "no tag", 0.0),
            ("J", "{}", "Answer: J", 1.0),
            ("Z", "{}", "**Answer:** Z", 1.0),
            ("the sea", "{}", "Final answer: The sea.", 1.0),
            ("answers", "{}", "answers", 1.0),
        ] {
            assert_eq!(outcome("{}", Some(label), metadata, response), Some(expected), "{label} {response}");
        }
        assert_eq!(outcome("{}", None, list, "A"), None);
        assert_eq!(outcome("{}", Some("horse"), list, "A"), None);
        assert_eq!(outcome("{}", Some("(see above)"), "{}", "A"), None);
    }

    #[test]
    fn relax_compares_the_first_tags_and_takes_none_for_nothing() {
        let relax = r#"{"mode": "relax"}"#;
        for (label, response, expected) in [
            ("<answer>B</answer>", "<answer>B</answer>", 1.0),
            ("<answer>B</answer>", "<answer>b</answer>", 0.0),
            ("<answer>B</answer>", "<answer>A</answer><answer>B</answer>", 0.0),
            ("B", "anything without a tag", 1.0),
            ("B", "<answer>B</answer>", 0.0),
        ] {
            assert_eq!(outcome(relax, Some(label), "{}", response), Some(expected), "{label} {response}");
        }
    }

    proptest! {
        #[test]
        fn for_every_response_there_is_a_score(response in "(\\PC|<answer>|</answer>|[A-D]){0,40}", label in "[A-C]|cat|<answer>x</answer>") {
            for config in ["{}", r#"{"mode": "relax"}"#] {
                let scored = outcome(config, Some(&label), "{}", &response);
                prop_assert!(scored.is_some());
            }
        }
    }
}
