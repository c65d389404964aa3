//! `geo3k`: geometry problems with pictures: right answers in a box, and the form of the response.
//!
//! `reward = (1 - w) accuracy + w format` with `w = 0.1`: both shares are components of that size, so
//! that their sum is the reward.
//!
//! - `accuracy`: the last box behind the reasoning is the label, by exact mathematics (see `math`):
//!   degrees, units and names before `=` may be left out, wrong ones may not be given.
//! - `format`: the response is `<think>…</think>` once, from its beginning, and then text with a box
//!   that closes.
//!
//! The label is the answer, or an object with it (`{"ground_truth": "48"}` or `{"answer": "48"}`).
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `format-weight` | `0.1` | `w` |
//! | `prefill` | `""` | what the chat template has already written of the response, such as `<think>` |
//! | `mode` | `"strict"` | `"verl"`, `"relax"`: their form (any text with these marks in this order), and their equality of texts besides exact mathematics |
//!
//! Unscorable: no label, or one that cannot be read.

use answer_text::{boxes, tags};
use math_core::{Label, Style, hendrycks};
use serde_json::Value;
use whet_plugin::{Configured, FinishReason, Group, Outcome, Reward, Sample, reward};

#[derive(Clone, Copy, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Strict,
    Verl,
    Relax,
}

#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Config {
    format_weight: f64,
    prefill: String,
    mode: Mode,
}

impl Default for Config {
    fn default() -> Self {
        Config { format_weight: 0.1, prefill: String::new(), mode: Mode::Strict }
    }
}

struct Geo3k(Config);

impl Configured for Geo3k {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "description": "Reads the label: the reference answer, or an object with ground_truth or answer. Metadata: prompt_prefill, the beginning of the response that the prompt has already given.",
  "properties": {
    "format-weight": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.1, "description": "the share of the form in the reward"},
    "prefill": {"type": "string", "default": "", "description": "the beginning that the chat template has already written, such as <think>"},
    "mode": {"enum": ["strict", "verl", "relax"], "default": "strict", "description": "strict: one block of reasoning, then a box, exact mathematics; verl, relax: those projects' rules"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        if !(0.0..=1.0).contains(&config.format_weight) {
            return Err(format!("`format-weight` must be between 0 and 1, not {}", config.format_weight));
        }
        Ok(Geo3k(config))
    }
}

impl Reward for Geo3k {
    const COMPONENTS: &'static [&'static str] = &["accuracy", "format"];

    fn score(&self, group: &Group) -> Vec<Outcome> {
        let Some(label) = &group.label else {
            return group.all(Outcome::unscorable("the row has no label"));
        };
        let text = answer_of(label);
        let label = match Label::read(&text) {
            Ok(label) => label,
            Err(why) => return group.all(Outcome::unscorable(why)),
        };
        let metadata: serde_json::Map<String, Value> = match group.metadata_as() {
            Ok(metadata) => metadata,
            Err(why) => return group.all(Outcome::Failed(why)),
        };
        let prefill = metadata.get("prompt_prefill").and_then(Value::as_str).unwrap_or(&self.0.prefill);
        group.samples.iter().map(|sample| self.grade(&label, &text, prefill, sample)).collect()
    }
}

reward!(Geo3k: Configured);

/// The label, or the answer of the object that it is.
fn answer_of(label: &str) -> String {
    let Ok(Value::Object(parts)) = serde_json::from_str(label) else { return label.to_owned() };
    let answer = parts.get("ground_truth").or_else(|| parts.get("answer"));
    answer.map_or(String::new(), |v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
}

impl Geo3k {
    fn grade(&self, label: &Label, text: &str, prefill: &str, sample: &Sample) -> Outcome {
        let response = tags::whole(prefill, &sample.response);
        let (correct, formed, note) = match self.0.mode {
            Mode::Strict => {
                let verdict = label.grade(&response, Style::Boxed, sample.finish == FinishReason::Length);
                (verdict.correct, is_formed(&response), verdict.note)
            }
            Mode::Verl | Mode::Relax => {
                let answer = last_box(&sample.response);
                let correct = hendrycks::equal_mathd(answer, text) || label.is(answer);
                let note: String = answer.chars().take(120).collect();
                (correct, has_marks(&sample.response), format!("answer {note}"))
            }
        };
        let share = |yes: bool, weight: f64| if yes { weight } else { 0.0 };
        Outcome::components()
            .component("accuracy", share(correct, 1.0 - self.0.format_weight))
            .component("format", share(formed, self.0.format_weight))
            .note(note)
    }
}

/// One block of reasoning from the beginning, then text with a box that closes.
fn is_formed(response: &str) -> bool {
    let Some(rest) = response.trim_start().strip_prefix("<think>") else { return false };
    let Some((inside, behind)) = rest.split_once("</think>") else { return false };
    let again = |text: &str| text.contains("<think>") || text.contains("</think>");
    let boxed = boxes(behind);
    !again(inside)
        && !again(behind)
        && boxed.last().is_some_and(|b| b.inside.is_some_and(|i| !i.trim().is_empty()))
}

/// verl's and Relax's `<think>.*</think>.*\boxed{.*}.*` (`geo3k.py`, 2026).
fn has_marks(response: &str) -> bool {
    let Some(rest) = response.strip_prefix("<think>") else { return false };
    let Some((_, behind)) = rest.split_once("</think>") else { return false };
    behind.split_once("\\boxed{").is_some_and(|(_, inside)| inside.contains('}'))
}

/// mathruler's last box, `None` as a text without one.
fn last_box(response: &str) -> &str {
    let inside = response.rfind("\\boxed{").map(|at| &response[at + "\\boxed{".len()..]);
    let mut depth = 0i32;
    for (i, b) in inside.unwrap_or("").bytes().enumerate() {
        match b {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return inside.map_or("None", |inside| inside[..i].trim());
        }
    }
    "None"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whet_plugin::testing::{configured, group};

    fn reward(config: &str, label: Option<&str>, response: &str) -> Option<f64> {
        let plugin: Geo3k = configured(config).unwrap();
        match plugin.score(&group(label, &[response])).remove(0) {
            Outcome::Scored(grade) => Some(grade.components.iter().map(|c| c.value).sum()),
            _ => None,
        }
    }

    #[test]
    fn accuracy_and_form_add_up() {
        for (label, response, expected) in [
            ("48", "<think>a</think>It is \\boxed{48}.", 1.0),
            ("48", "It is \\boxed{48}.", 0.9),
            ("48", "<think>a</think>It is \\boxed{47}.", 0.1),
            ("48", "47", 0.0),
            ("48", "<think>a</think><think>b</think>\\boxed{48}", 0.9),
            ("48", "Sure. <think>a</think>\\boxed{48}", 0.9),
            ("48", "<think>\\boxed{48}</think>", 0.0),
            ("48", "<think>a</think>\\boxed{48", 0.0),
            ("48", "<think>a</think>\\boxed{}", 0.0),
        ] {
            assert_eq!(reward("{}", Some(label), response), Some(expected), "{response}");
        }
    }

    #[test]
    fn geometry_is_compared_exactly_with_its_dress_off() {
        for (label, answer, right) in [
            ("30", "30^\\circ", true),
            ("30^\\circ", "30", true),
            ("30", "30^{\\circ}", true),
            ("30", "30°", true),
            ("30", "30 \\text{ degrees}", true),
            ("30", "m\\angle A = 30^\\circ", true),
            ("30", "\\angle ABC = 30", true),
            ("5\\sqrt{2}", "\\sqrt{50}", true),
            ("5\\sqrt{2}", "5\\sqrt2\\text{ cm}", true),
            ("5\\sqrt{2}", "7.07", false),
            ("12", "12 \\text{ square units}", true),
            ("12", "12\\,\\text{cm}^2", true),
            ("12 \\text{ cm}", "12 \\text{ m}", false),
            ("9", "x = 9", true),
            ("9", "AB = 9", true),
            ("36\\pi", "36 \\pi \\text{ cm}^2", true),
            ("36\\pi", "36", false),
            ("\\frac{3}{5}", "0.6", true),
            ("9.2", "9.2", true),
            ("9.2", "9.20", true),
            ("4\\sqrt{3}+2", "2+4\\sqrt{3}", true),
        ] {
            let response = format!("<think>a</think>\\boxed{{{answer}}}");
            assert_eq!(
                reward("{}", Some(label), &response),
                Some(if right { 1.0 } else { 0.1 }),
                "{label} {answer}"
            );
        }
        assert_eq!(reward("{}", Some(r#"{"ground_truth": "48"}"#), "<think>a</think>\\boxed{48}"), Some(1.0));
        for label in [None, Some(""), Some(r#"{"x": 1}"#)] {
            assert_eq!(reward("{}", label, "\\boxed{48}"), None);
        }
    }

    #[test]
    fn the_recipe_may_weigh_the_form_and_say_what_the_template_wrote() {
        let given = r#"{"prefill": "<think>\n", "format-weight": 0.5}"#;
        assert_eq!(reward(given, Some("1"), "a</think>\\boxed{1}"), Some(1.0));
        assert_eq!(reward(given, Some("1"), "\\boxed{1}"), Some(0.0));
        assert!(configured::<Geo3k>(r#"{"format-weight": 2}"#).is_err());
    }

    #[test]
    fn compat_modes_take_any_text_with_the_marks_in_order() {
        for (label, response, expected) in [
            ("48", "<think>a</think><think>b</think>\\boxed{48}", 1.0),
            ("48", "<think>a</think>\\boxed{48", 0.0),
            ("5\\text{ cm}", "\\boxed{5\\text{ m}}", 0.9),
            ("48", "\n<think>a</think>\\boxed{48}", 0.9),
            ("48", "none", 0.0),
        ] {
            for mode in ["verl", "relax"] {
                let config = format!("{{\"mode\": \"{mode}\"}}");
                assert_eq!(reward(&config, Some(label), response), Some(expected), "{response}");
            }
        }
    }

    proptest! {
        #[test]
        fn for_every_response_the_reward_lies_between_zero_and_one(response in "(\\PC|<think>|</think>|\\\\boxed\\{|\\}|[0-9]){0,40}") {
            for config in ["{}", r#"{"mode": "verl"}"#] {
                let score = reward(config, Some("4"), &response).unwrap();
                prop_assert!((0.0..=1.0).contains(&score));
            }
        }
    }
}
