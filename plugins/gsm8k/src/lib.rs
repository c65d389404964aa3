//! `gsm8k`: 1 when what follows the last `####` is the label, by exact mathematics, else 0.
//!
//! The label is a number or a worked solution that itself ends in `#### 42`. Signs, thousands,
//! decimals, fractions, currencies and units are read, not matched: `#### $1,250.00` is `1250`, and
//! `-7` is not `7`. Text behind the answer's line does not matter, however long it is.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `extraction` | `"strict"` | `"flexible"`: without `####`, a box, an answer line or the last number |
//! | `mode` | `"strict"` | `"verl"`: verl's `gsm8k` with its `strict` and `flexible` methods, faults included: equal texts, of the response's last 300 characters |
//!
//! A row without a readable label is unscorable. See the plugin `math` for how answers are compared.

mod peer;

use math_core::{Label, Style};
use whet_plugin::{Configured, FinishReason, Group, Outcome, Reward, reward};

#[derive(Clone, Copy, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Extraction {
    #[default]
    Strict,
    Flexible,
}

#[derive(Clone, Copy, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Strict,
    Verl,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    extraction: Extraction,
    mode: Mode,
}

struct Gsm8k(Config);

impl Configured for Gsm8k {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "description": "Reads the label: a number, or a worked solution that ends in #### and the number. No metadata.",
  "properties": {
    "extraction": {"enum": ["strict", "flexible"], "default": "strict", "description": "strict: only what follows #### counts; flexible: else a box, an answer line or the last number"},
    "mode": {"enum": ["strict", "verl"], "default": "strict", "description": "strict: exact mathematics; verl: equal texts, as verl's gsm8k has them"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        Ok(Gsm8k(config))
    }
}

impl Reward for Gsm8k {
    fn score(&self, group: &Group) -> Vec<Outcome> {
        let Some(label) = &group.label else {
            return group.all(Outcome::unscorable("the row has no label"));
        };
        if self.0.mode == Mode::Verl {
            let found = |text: &str| match self.0.extraction {
                Extraction::Strict => peer::marked(text),
                Extraction::Flexible => peer::last_number(text),
            };
            let right = |text: &str| found(peer::tail(text)).is_some_and(|answer| answer == *label);
            return group.samples.iter().map(|s| Outcome::correct(right(&s.response))).collect();
        }
        let label = match Label::read(label) {
            Ok(label) => label,
            Err(why) => return group.all(Outcome::unscorable(why)),
        };
        let graded = group.samples.iter().map(|sample| {
            let cut_off = sample.finish == FinishReason::Length;
            let styles: &[Style] = match self.0.extraction {
                Extraction::Strict => &[Style::Gsm8k],
                Extraction::Flexible => &[Style::Gsm8k, Style::AnswerLine, Style::LastNumber],
            };
            let mut verdict = label.grade(&sample.response, Style::Gsm8k, cut_off);
            for style in &styles[1..] {
                if verdict.note.starts_with("no answer: no ") {
                    verdict = label.grade(&sample.response, *style, cut_off);
                }
            }
            Outcome::correct(verdict.correct).note(verdict.note)
        });
        graded.collect()
    }
}

reward!(Gsm8k: Configured);

#[cfg(test)]
mod tests {
    use super::*;
    use whet_plugin::testing::{configured, group};

    fn reward(config: &str, label: &str, response: &str) -> Option<f64> {
        let plugin: Gsm8k = configured(config).unwrap();
        match plugin.score(&group(Some(label), &[response])).remove(0) {
            Outcome::Scored(grade) => Some(grade.components[0].value),
            _ => None,
        }
    }

    #[test]
    fn only_what_follows_the_marker_counts() {
        for (label, response, expected) in [
            ("36", "9*4 = 36\n#### 36\nChecked.", 1.0),
            ("x #### -3", "#### -3", 1.0),
            ("3", "#### -3", 0.0),
            ("1,250", "#### $1250.00", 1.0),
            ("36", "36", 0.0),
        ] {
            assert_eq!(reward("{}", label, response), Some(expected), "{response}");
        }
        assert_eq!(reward("{}", "", "#### 1"), None);
    }

    #[test]
    fn verl_compares_texts_of_the_tail() {
        let (verl, flexible) = (r#"{"mode": "verl"}"#, r#"{"mode": "verl", "extraction": "flexible"}"#);
        let far = format!("#### 36\n{}", "Checked. ".repeat(40));
        for (config, label, response, expected) in [
            (verl, "36", "#### 36", 1.0),
            (verl, "1250", "#### 1,250", 1.0),
            (verl, "36", "#### 36.", 0.0),
            (verl, "36", "####36", 0.0),
            (verl, "36", &far, 0.0),
            (flexible, "36", "There are 36 jars", 1.0),
            (flexible, "36", "There are 36 jars, altogether.", 0.0),
            (flexible, "36", "36 .", 1.0),
        ] {
            assert_eq!(reward(config, label, response), Some(expected), "{response}");
        }
    }

    #[test]
    fn flexible_extraction_takes_the_last_number_where_no_marker_is() {
        let flexible = r#"{"extraction": "flexible"}"#;
        assert_eq!(reward(flexible, "36", "There are 36 jars."), Some(1.0));
        assert_eq!(reward(flexible, "36", "#### 35\nor 36"), Some(0.0));
    }
}
