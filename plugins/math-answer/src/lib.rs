//! `math-answer`: 1 when the response's final number equals the label, exactly, else 0.
//!
//! Where the final number is looked for, from the end of the response (after the last `</think>`):
//!
//! 1. after `####`, to the end of the line, or in `\boxed{…}`, whichever comes last;
//! 2. with `extraction = "lenient"` (the default), else the last number of the text.
//!
//! The first of these that is there decides. A box that is empty or never closed, or one that holds
//! something other than one number, is the final answer and is wrong: no earlier number is taken in
//! its stead. Neither is a last number that the token limit cut off, or that is part of a larger
//! expression (`2^5`, `10 - 7`, `3:45`). The note says what was taken; a note that begins with
//! `no answer` says why nothing was.
//!
//! Numbers are compared as exact fractions of integers of any size: `18`, `18.00`, `$18`, `1,250`,
//! `5/8`, `0.625`, `\frac58`, `3\frac{1}{2}`, `3.2\times 10^{-5}`, `7 \%`. A percent sign divides
//! by a hundred; where only one side has it, the bare figure counts too (`28%` is 28 and 0.28). A unit behind the
//! number counts when both sides have one. A label that is not one number makes the row unscorable,
//! as does a row without a label. A label may be a whole worked solution that ends in `#### 42`.
//!
//! Configuration:
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `extraction` | `"lenient"` | `"strict"`: only `####` and `\boxed{…}` count |

mod answer;
mod arithmetic;
mod number;
mod prose;
mod value;

use answer::{Extraction, Found};
use value::Value;
use whet_plugin::{Configured, FinishReason, Group, Outcome, Reward, Sample, reward};

#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    extraction: Extraction,
}

struct MathAnswer(Extraction);

impl Configured for MathAnswer {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "properties": {
    "extraction": {"enum": ["lenient", "strict"], "default": "lenient", "description": "strict: only #### and \\boxed{} count; lenient: else the last number"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        Ok(MathAnswer(config.extraction))
    }
}

impl Reward for MathAnswer {
    fn score(&self, group: &Group) -> Vec<Outcome> {
        let Some(label) = &group.label else {
            return group.all(Outcome::unscorable("the row has no label"));
        };
        match answer::of_label(label) {
            Some(label) => group.samples.iter().map(|sample| self.grade(sample, &label)).collect(),
            None => group.all(Outcome::unscorable(format!("the label {label:?} is not a number"))),
        }
    }
}

reward!(MathAnswer: Configured);

impl MathAnswer {
    fn grade(&self, sample: &Sample, label: &Value) -> Outcome {
        let cut_off = sample.finish == FinishReason::Length;
        match answer::of_response(&sample.response, cut_off, self.0) {
            Found::Number { text, place, value } => Outcome::correct(value.equals(label))
                .note(["answer ", text.trim(), " (", place, ")"].concat()),
            Found::Nothing(why) => Outcome::correct(false).note(["no answer: ", why].concat()),
        }
    }
}

#[cfg(test)]
mod tests;
