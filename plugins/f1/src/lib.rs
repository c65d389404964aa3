//! `f1`: how far the words of the response's answer are those of the label: F1 between 0 and 1, or
//! exact match as 1 or 0.
//!
//! The answer is the inside of the last `<answer>` behind the reasoning; without one, all that stands
//! behind the reasoning. With several right answers (a label that is a JSON list, or the metadata's
//! `answers`, `aliases` or `golden_answers`) the best one counts.
//!
//! `F1 = 2 P R / (P + R)`, where `P` is the share of the answer's words that the label has too, and
//! `R` the share of the label's; a word that comes twice counts twice. Words are those of SQuAD: lower
//! case, without punctuation and without `a`, `an`, `the`.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `metric` | `"f1"` | or `"em"`: 1 when the words are the same in the same order |
//! | `mode` | `"strict"` | `"relax"`: Relax's and slime's F1 of the whole response; `"verl"`: verl's exact match of the last `<answer>` (its `search_r1_like_qa_em`) |
//!
//! Decided where graders differ, in `strict`:
//!
//! - A number is one word and keeps its sign and its point: `3.14` is not `314`, `-5` is not `5`;
//!   `3,000` is `3000`, `3.50` is `3.5`, `(3.14)` is `3.14`.
//! - Unicode's signs are those of ASCII: minus, dashes, quotes, full-width forms, composed letters.
//! - A hyphen inside a word goes, as in SQuAD: `well-known` is `wellknown`, not `well known`.
//! - Articles stay where nothing else would: the label `A` is an answer.
//! - Text that is written without blanks (Chinese, Japanese, Thai) is compared by characters.
//! - `yes`, `no` and `noanswer` are right alone, as in HotpotQA: `yes, they are` scores 0.
//! - An empty label is an unanswerable question: an empty answer scores 1, any other 0.
//!
//! Unscorable: no label, or a list without items.

mod peer;
mod words;

use serde_json::Value;
use whet_plugin::{Configured, Group, Outcome, Reward, reward};

#[derive(Clone, Copy, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Strict,
    Relax,
    Verl,
}

#[derive(Clone, Copy, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Metric {
    #[default]
    F1,
    Em,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    mode: Mode,
    metric: Option<Metric>,
}

struct F1 {
    mode: Mode,
    metric: Metric,
}

impl Configured for F1 {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "description": "Reads the label (a text, or a JSON list of right answers) and of the metadata: answers, golden_answers or aliases, more right answers.",
  "properties": {
    "metric": {"enum": ["f1", "em"], "default": "f1", "description": "overlap of words, or exact match"},
    "mode": {"enum": ["strict", "relax", "verl"], "default": "strict", "description": "relax: Relax's and slime's F1; verl: verl's exact match of the last <answer>"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        match (config.mode, config.metric) {
            (Mode::Relax, Some(Metric::Em)) => {
                Err("`mode = \"relax\"` has no metric `em`; leave `metric` out".into())
            }
            (Mode::Verl, Some(Metric::F1)) => {
                Err("`mode = \"verl\"` has no metric `f1`; leave `metric` out".into())
            }
            (mode, metric) => Ok(F1 { mode, metric: metric.unwrap_or_default() }),
        }
    }
}

impl Reward for F1 {
    fn score(&self, group: &Group) -> Vec<Outcome> {
        let golds = match golds(group) {
            Ok(golds) => golds,
            Err(outcome) => return group.all(outcome),
        };
        group.samples.iter().map(|sample| self.grade(&golds, &sample.response)).collect()
    }
}

reward!(F1: Configured);

/// All right answers of a row.
fn golds(group: &Group) -> Result<Vec<String>, Outcome> {
    let mut golds = match &group.label {
        Some(label) => match serde_json::from_str(label) {
            Ok(Value::Array(items)) if items.iter().all(|i| i.is_string() || i.is_number()) => texts(&items),
            _ => vec![label.clone()],
        },
        None => Vec::new(),
    };
    let metadata: serde_json::Map<String, Value> = group.metadata_as().map_err(Outcome::Failed)?;
    for key in ["answers", "golden_answers", "aliases"] {
        match metadata.get(key) {
            Some(Value::Array(items)) => golds.extend(texts(items)),
            // SQuAD's own form.
            Some(Value::Object(answers)) => {
                golds.extend(
                    answers.get("text").and_then(Value::as_array).map_or_else(Vec::new, |t| texts(t)),
                );
            }
            Some(Value::String(text)) => golds.push(text.clone()),
            _ => {}
        }
    }
    if golds.is_empty() {
        Err(Outcome::unscorable("the row has no label and no `answers`"))
    } else {
        Ok(golds)
    }
}

fn texts(items: &[Value]) -> Vec<String> {
    items.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect()
}

impl F1 {
    fn grade(&self, golds: &[String], response: &str) -> Outcome {
        let best = |score: &dyn Fn(&String) -> f64| golds.iter().map(score).fold(0.0, f64::max);
        match self.mode {
            Mode::Relax => return Outcome::scored(best(&|gold| peer::f1(response, gold))),
            Mode::Verl => return Outcome::scored(peer::exact_match(response, golds)),
            Mode::Strict => {}
        }
        let answer = match answer(response) {
            Ok(answer) => answer,
            // No answer is an empty one: right where the question has none.
            Err(why) => {
                let empty = golds.iter().any(|gold| words::of(gold).is_empty());
                return Outcome::correct(empty).note(format!("no answer: {why}"));
            }
        };
        let said = words::of(answer);
        let value = best(&|gold| {
            let wanted = words::of(gold);
            match self.metric {
                Metric::F1 => words::overlap(&said, &wanted),
                Metric::Em => f64::from(u8::from(said == wanted)),
            }
        });
        let shown: String = answer.trim().chars().take(120).collect();
        Outcome::scored(value).note(format!("answer {shown}"))
    }
}

fn answer(response: &str) -> Result<&str, &'static str> {
    let text = answer_text::behind_reasoning(response)?;
    answer_text::tags::last(text, "answer").unwrap_or(Ok(text))
}

#[cfg(test)]
mod tests;
