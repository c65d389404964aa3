//! `math`: 1 when the response's final answer is the label, by exact mathematics, else 0.
//!
//! Where the final answer is looked for, behind the last `</think>`, is the option `answer_style`:
//!
//! | `answer_style` | the answer is |
//! |---|---|
//! | `boxed` | the last `\boxed{…}`; boxes joined by a comma or `and` are one list |
//! | `answer_line` | what follows the last `Answer:` or `answer is`; without one, the last box |
//! | `last_number` | the last number |
//! | `gsm8k` | what follows the last `####` |
//! | `none` (default) | a box, `####`, an answer line, else the formula that ends the text |
//!
//! `mode = "verl"` answers as verl's `math_reward` does, faults included: the last box, compared as a
//! text by the normaliser of the MATH data set; `answer_style` is not used then.
//!
//! A final answer that is empty, never closed, or cut off by the token limit is wrong, and nothing
//! before it is taken in its stead. The note says what was taken; one that begins with `no answer`
//! says why nothing was. A row whose label is missing, empty, or has braces that do not match is
//! unscorable. A label of a form that is not read as mathematics is compared as it is written.
//!
//! Answers are compared by type: formulas by exact normal forms (rationals of any size, roots, `e`,
//! `pi`, `i`, logarithms, trigonometry, variables), points and intervals with their brackets, sets
//! and bare lists in any order, ratios, matrices, equations up to a constant factor, inequalities,
//! intervals and unions as sets of real numbers, words without regard to case. No rounding: `3.14` is not `\pi`. Work is bounded:
//! what would grow too large is equal only to its like. Nothing is evaluated as code.
//!
//! Decided where graders differ:
//!
//! - A box that is never closed is no answer; an earlier box does not count.
//! - `28\%` is 0.28 and, since the question may ask for a percentage, also the bare figure 28. Two
//!   figures without a percent sign never differ by a hundred.
//! - A unit counts when both sides have one; then it is converted (60 minutes are 1 hour). Currency
//!   signs and degrees are units. A bare angle may be in radians or in the degrees of the other side.
//! - `m \ge 2` is `[2, \infty)` and `m \in [2, \infty)`, in both directions.
//! - `x > 1, x < 3` is `(1, 3)`, and `x < 1, x > 3`, which cannot hold at once, is a union.
//! - A bare list of solutions has no order; a tuple has. `x = 1, y = 2` is the point `(1, 2)`.
//! - `x = 5` is 5, but not `y = 5`. Renamed variables and integration constants are not equal.
//! - `\log_2 8` is 3: forms are not asked to be simplified.
//! - `\log` without a base is the natural logarithm. `\sqrt{x^2}` is `|x|`, not `x`.
//! - A set of one element is that element. Text ignores case.

use math_core::{Label, Style, hendrycks};
use whet_plugin::{Configured, FinishReason, Group, Outcome, Reward, reward};

#[derive(Clone, Copy, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum AnswerStyle {
    Boxed,
    AnswerLine,
    LastNumber,
    Gsm8k,
    #[default]
    None,
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
    answer_style: Option<AnswerStyle>,
    mode: Mode,
}

struct Math {
    style: Style,
    mode: Mode,
}

impl Configured for Math {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "description": "Reads the label: the reference answer, or a worked solution that ends in #### and the answer. No metadata.",
  "properties": {
    "answer_style": {"enum": ["boxed", "answer_line", "last_number", "gsm8k", "none"], "default": "none", "description": "where the final answer stands: in \\boxed{}, behind 'Answer:', the last number, behind ####, or wherever it is found"},
    "mode": {"enum": ["strict", "verl"], "default": "strict", "description": "strict: exact mathematics; verl: equal texts, as verl's math_reward normalises them"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        if config.mode == Mode::Verl && config.answer_style.is_some() {
            return Err("`mode = \"verl\"` reads the last box; leave `answer_style` out".into());
        }
        let style = match config.answer_style.unwrap_or_default() {
            AnswerStyle::Boxed => Style::Boxed,
            AnswerStyle::AnswerLine => Style::AnswerLine,
            AnswerStyle::LastNumber => Style::LastNumber,
            AnswerStyle::Gsm8k => Style::Gsm8k,
            AnswerStyle::None => Style::None,
        };
        Ok(Math { style, mode: config.mode })
    }
}

impl Reward for Math {
    fn score(&self, group: &Group) -> Vec<Outcome> {
        let Some(label) = &group.label else {
            return group.all(Outcome::unscorable("the row has no label"));
        };
        if self.mode == Mode::Verl {
            let right = |text: &str| hendrycks::last_box(text).is_some_and(|a| hendrycks::equal(a, label));
            return group.samples.iter().map(|s| Outcome::correct(right(&s.response))).collect();
        }
        let label = match Label::read(label) {
            Ok(label) => label,
            Err(why) => return group.all(Outcome::unscorable(why)),
        };
        let graded = group.samples.iter().map(|sample| {
            let verdict = label.grade(&sample.response, self.style, sample.finish == FinishReason::Length);
            Outcome::correct(verdict.correct).note(verdict.note)
        });
        graded.collect()
    }
}

reward!(Math: Configured);

#[cfg(test)]
mod tests {
    use super::*;
    use whet_plugin::testing::{configured, group, sample};

    fn rewards(config: &str, label: Option<&str>, responses: &[&str]) -> Vec<Option<f64>> {
        let plugin: Math = configured(config).unwrap();
        let outcomes = plugin.score(&group(label, responses));
        let value = |o: Outcome| match o {
            Outcome::Scored(grade) => Some(grade.components[0].value),
            _ => None,
        };
        outcomes.into_iter().map(value).collect()
    }

    #[test]
    fn a_group_is_graded_in_order() {
        let responses = ["\\boxed{\\frac{1}{2}}", "\\boxed{2}", "I do not know"];
        assert_eq!(rewards("{}", Some("0.5"), &responses), [Some(1.0), Some(0.0), Some(0.0)]);
    }

    #[test]
    fn rows_without_a_readable_label_are_unscorable() {
        assert_eq!(rewards("{}", None, &["1", "2"]), [None, None]);
        assert_eq!(rewards("{}", Some("\\frac{1}{2"), &["\\boxed{\\frac{1}{2}}"]), [None]);
    }

    #[test]
    fn the_style_says_where_the_answer_stands() {
        let response = ["It is \\boxed{3}. #### 4\nAnswer: 5\n6 in all."];
        for (style, label) in [("boxed", "3"), ("gsm8k", "4"), ("answer_line", "5"), ("last_number", "6")] {
            let config = format!("{{\"answer_style\": \"{style}\"}}");
            assert_eq!(rewards(&config, Some(label), &response), [Some(1.0)], "{style}");
        }
        assert!(configured::<Math>(r#"{"answer_style": "box"}"#).is_err());
        assert!(configured::<Math>(r#"{"style": "boxed"}"#).is_err());
    }

    #[test]
    fn verl_compares_the_last_box_as_text() {
        let verl = r#"{"mode": "verl"}"#;
        for (label, response, expected) in [
            ("\\frac{1}{2}", "\\boxed{\\dfrac12}", 1.0),
            ("\\frac{1}{2}", "\\boxed{0.50}", 0.0),
            ("28", "\\boxed{28\\%}", 1.0),
            ("5\\text{ hours}", "\\boxed{5\\text{ minutes}}", 1.0),
            ("7", "7", 0.0),
        ] {
            assert_eq!(rewards(verl, Some(label), &[response]), [Some(expected)], "{response}");
        }
        assert!(configured::<Math>(r#"{"mode": "verl", "answer_style": "boxed"}"#).is_err());
    }

    #[test]
    fn an_answer_that_the_token_limit_cut_off_is_wrong() {
        let plugin: Math = configured(r#"{"answer_style": "answer_line"}"#).unwrap();
        let mut group = group(Some("12"), &[]);
        group.samples.push(whet_plugin::Sample { finish: FinishReason::Length, ..sample("s", "Answer: 12") });
        assert!(matches!(&plugin.score(&group)[..], [Outcome::Scored(g)] if g.components[0].value == 0.0));
    }
}
