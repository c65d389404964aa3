//! `openr1-multimodal`: questions about pictures, answered as `<think>…</think><answer>…</answer>`:
//! right answers, the form of the tags, or both.
//!
//! - `accuracy`: 1 when the answer is the label. The answer is the inside of the last `<answer>`
//!   behind the reasoning, else the box, answer line or closing formula there. It is compared as an
//!   option where the label is a letter, else by exact mathematics (see `math`), else as words: the
//!   whole answer, never a part of it.
//! - `format`: 1 when the response is the two blocks in this order, once each, with nothing but white
//!   space around them and something in the answer. Tokens that end the turn do not count.
//!
//! The label may stand in `<answer>` or `<solution>` tags or dollars.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `check` | `"accuracy"` | `"format"`, or `"both"`, which add up to at most 2 |
//! | `prefill` | `""` | what the chat template has already written of the response, such as `<think>`; a row's metadata may say it as `prompt_prefill` |
//! | `mode` | `"strict"` | `"open-r1"`, `"relax"`: those projects' rules, faults included |
//!
//! `open-r1` checks the form by its regular expression, which wants line ends inside the tags and lets
//! text follow on a further line. `relax` gives no accuracy to more than one `</think>` or `<answer>`,
//! compares the whole response and then the first tags as texts, and takes for well formed whatever
//! ends in `>` or contains `im_end`. Where they ask math-verify, the modes ask exact mathematics.
//!
//! Unscorable: for accuracy, no label, or one that is a remark and no answer (`(see the proof above)`).

mod peer;

use answer_text::{behind_reasoning, tags};
use choice_core::{Options, Question};
use math_core::{Label, Style};
use serde_json::{Map, Value};
use whet_plugin::{Configured, FinishReason, Group, Outcome, Reward, Sample, reward};

#[derive(Clone, Copy, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Check {
    #[default]
    Accuracy,
    Format,
    Both,
}

#[derive(Clone, Copy, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    #[default]
    Strict,
    OpenR1,
    Relax,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    check: Check,
    prefill: String,
    mode: Mode,
}

struct OpenR1(Config);

impl Configured for OpenR1 {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "description": "Reads the label (an answer: formula, option or words) and of the metadata: prompt_prefill, the beginning of the response that the prompt has already given, and choices where labels are options.",
  "properties": {
    "check": {"enum": ["accuracy", "format", "both"], "default": "accuracy", "description": "right answers, the form of the tags, or the sum of both"},
    "prefill": {"type": "string", "default": "", "description": "the beginning that the chat template has already written, such as <think>"},
    "mode": {"enum": ["strict", "open-r1", "relax"], "default": "strict", "description": "strict: the tags as a grammar, exact answers; the others: those projects' rules"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        Ok(OpenR1(config))
    }
}

impl Reward for OpenR1 {
    const COMPONENTS: &'static [&'static str] = &["accuracy", "format"];

    fn score(&self, group: &Group) -> Vec<Outcome> {
        let metadata: Map<String, Value> = match group.metadata_as() {
            Ok(metadata) => metadata,
            Err(why) => return group.all(Outcome::Failed(why)),
        };
        let prefill = metadata.get("prompt_prefill").and_then(Value::as_str).unwrap_or(&self.0.prefill);
        let gold = match self.0.check {
            Check::Format => None,
            Check::Accuracy | Check::Both => match Gold::read(group.label.as_deref(), &metadata) {
                Ok(gold) => Some(gold),
                Err(why) => return group.all(Outcome::unscorable(why)),
            },
        };
        group.samples.iter().map(|sample| self.grade(gold.as_ref(), prefill, sample)).collect()
    }
}

reward!(OpenR1: Configured);

impl OpenR1 {
    fn grade(&self, gold: Option<&Gold>, prefill: &str, sample: &Sample) -> Outcome {
        let mut outcome = Outcome::components();
        let mut notes = Vec::new();
        let value = |yes: bool| if yes { 1.0 } else { 0.0 };
        if let Some(gold) = gold {
            let (right, note) = match self.0.mode {
                Mode::Relax => (peer::relax_is_right(gold, &sample.response), None),
                Mode::Strict | Mode::OpenR1 => gold.grade(sample),
            };
            outcome = outcome.component("accuracy", value(right));
            notes.extend(note);
        }
        if self.0.check != Check::Accuracy {
            let formed = match self.0.mode {
                Mode::OpenR1 => {
                    peer::open_r1_is_formed(&sample.response).then_some(()).ok_or_else(String::new)
                }
                Mode::Relax => peer::relax_is_formed(&sample.response).then_some(()).ok_or_else(String::new),
                Mode::Strict => tags::check(&tags::think_answer(), &tags::whole(prefill, &sample.response)),
            };
            outcome = outcome.component("format", value(formed.is_ok()));
            notes.extend(formed.err().filter(|why| !why.is_empty()));
        }
        if notes.is_empty() { outcome } else { outcome.note(notes.join("; ")) }
    }
}

/// A label as it can be graded.
pub(crate) struct Gold {
    /// The label without its tags.
    pub text: String,
    /// Its mathematics or words.
    pub label: Label,
    question: Option<Question>,
}

impl Gold {
    fn read(label: Option<&str>, metadata: &Map<String, Value>) -> Result<Gold, String> {
        let label = label.ok_or("the row has no label")?;
        let tagged = ["answer", "solution"].iter().find_map(|name| tags::last(label, name)?.ok());
        let text = tagged.unwrap_or(label).trim().to_owned();
        let bare = text.trim_matches(['(', ')', '.', '$', ' ']);
        // `$e$` is a formula; a bare letter is an option in either case.
        let is_option = match bare.as_bytes() {
            [b'A'..=b'J'] => true,
            [b'a'..=b'j'] => !text.contains('$'),
            _ => false,
        };
        let question = match is_option {
            true => Some(Question::read(Some(bare), metadata, Options::default())?),
            false => None,
        };
        Ok(Gold { label: Label::read(&text)?, text, question })
    }

    fn grade(&self, sample: &Sample) -> (bool, Option<String>) {
        let cut_off = sample.finish == FinishReason::Length;
        let text =
            match behind_reasoning(&sample.response).and_then(|text| match tags::last(text, "answer") {
                Some(inside) => inside.map(|inside| (inside, true)),
                None => Ok((text, false)),
            }) {
                Ok(text) => text,
                Err(why) => return (false, Some(format!("no answer: {why}"))),
            };
        let (text, tagged) = text;
        if let Some(question) = &self.question {
            let verdict = question.grade(&sample.response, cut_off);
            if verdict.correct {
                return (true, Some(verdict.note));
            }
        }
        if tagged && self.label.is(text) {
            return (true, Some(format!("answer {}", text.trim())));
        }
        let verdict = self.label.grade(text, Style::None, cut_off && !tagged);
        (verdict.correct, Some(verdict.note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whet_plugin::testing::{configured, group};

    fn reward(config: &str, label: Option<&str>, metadata: &str, response: &str) -> Option<f64> {
        let plugin: OpenR1 = configured(config).unwrap();
        let mut group = group(label, &[response]);
        group.metadata = metadata.to_owned();
        match plugin.score(&group).remove(0) {
            Outcome::Scored(grade) => Some(grade.components.iter().map(|c| c.value).sum()),
            _ => None,
        }
    }

    /// Disputable cases too, as the documentation decides them.
    #[test]
    fn every_case_of_the_bug_reports_is_right() {
        let mut cases = 0;
        for line in include_str!("../tests/cases.jsonl").lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let input = &case["input"];
            let config = format!("{{\"check\": {}}}", input["check"]);
            let got = reward(
                &config,
                input["gold"].as_str(),
                &input.to_string(),
                input["response"].as_str().unwrap(),
            );
            assert_eq!(got, case["expected"].as_f64(), "{}", case["id"]);
            cases += 1;
        }
        assert!(cases >= 16);
    }

    #[test]
    fn answers_are_options_formulas_or_words() {
        for (label, answer, right) in [
            ("B", "(b)", true),
            ("B", "B. a dog", true),
            ("(B)", "b", true),
            ("b", "B", true),
            ("(b)", "B. a dog", true),
            ("b", "b", true),
            ("b", "A", false),
            ("$b$", "B", false),
            ("Red car", "red car", true),
            ("B", "A", false),
            ("3", "3.0", true),
            ("3", "three", false),
            ("\\frac{1}{2}", "0.5", true),
            ("$\\frac{1}{2}$", "1/2", true),
            ("<solution>yes</solution>", "Yes", true),
            ("red cube", "Red cube.", true),
            ("red cube", "a blue cube", false),
            ("left of the blue sphere", "left of the blue sphere", true),
            ("cat", "cat, dog, bird", false),
            ("cat", "category", false),
            ("3", "3 or 4", false),
            ("13", "There are 3 objects.", false),
            ("30^\\circ", "30", true),
            ("Yes", "No", false),
        ] {
            let response = format!("<think>x</think><answer>{answer}</answer>");
            assert_eq!(
                reward("{}", Some(label), "{}", &response),
                Some(if right { 1.0 } else { 0.0 }),
                "{label} {answer}"
            );
        }
        let choices = r#"{"choices": ["cat", "dog"]}"#;
        assert_eq!(reward("{}", Some("B"), choices, "<answer>dog</answer>"), Some(1.0));
        assert_eq!(reward("{}", Some("b"), choices, "<answer>B</answer>"), Some(1.0));
        assert_eq!(reward("{}", Some("b"), choices, "<answer>A</answer>"), Some(0.0));
        assert_eq!(reward("{}", Some("4"), "{}", "<answer>4"), Some(0.0));
        for label in [None, Some(""), Some("(see the proof above)"), Some("\\frac{1}{2")] {
            assert_eq!(reward("{}", label, "{}", "\\boxed{5}"), None, "{label:?}");
        }
    }

    #[test]
    fn both_checks_add_up_and_the_form_needs_no_label() {
        let both = r#"{"check": "both"}"#;
        for (response, expected) in [
            ("<think>a</think><answer>4</answer>", 2.0),
            ("<answer>4</answer>", 1.0),
            ("<think>a</think><answer>5</answer>", 1.0),
            ("5", 0.0),
        ] {
            assert_eq!(reward(both, Some("4"), "{}", response), Some(expected), "{response}");
        }
        assert_eq!(
            reward(r#"{"check": "format"}"#, None, "{}", "<think>a</think><answer>4</answer>"),
            Some(1.0)
        );
        let given = r#"{"check": "format", "prefill": "<think>"}"#;
        assert_eq!(reward(given, None, "{}", "a</think><answer>4</answer>"), Some(1.0));
        assert!(configured::<OpenR1>(r#"{"check": "all"}"#).is_err());
    }

    /// Scores that the projects' own functions gave.
    #[test]
    fn compat_modes_repeat_the_peers_faults() {
        for (response, open_r1, relax) in [
            ("<think>\na\n</think>\n<answer>\n3\n</answer>", 1.0, 1.0),
            ("<think>a</think><answer>3</answer>", 0.0, 1.0),
            ("<think>\na\n</think>\n<answer>\n3\n</answer>\nHope that helps!", 1.0, 0.0),
            ("<think>\na\n</think>\n<answer>\n3\n</answer>\n</answer>", 1.0, 1.0),
            ("<think>\na\n</think>\n<answer>\n3\n</answer><|im_end|>", 0.0, 1.0),
            ("no tags at all, 1 > 0, but >", 0.0, 1.0),
            ("none", 0.0, 0.0),
        ] {
            let mode = |mode: &str| {
                reward(&format!("{{\"check\": \"format\", \"mode\": \"{mode}\"}}"), None, "{}", response)
            };
            assert_eq!((mode("open-r1"), mode("relax")), (Some(open_r1), Some(relax)), "{response}");
        }
        let relax = |label, response| reward(r#"{"mode": "relax"}"#, Some(label), "{}", response);
        assert_eq!(relax("<answer>b</answer>", "<answer>b</answer>"), Some(1.0));
        assert_eq!(relax("<answer>B</answer>", "<answer>b</answer>"), Some(0.0));
        assert_eq!(relax("3", "<answer>2</answer> no, <answer>3</answer>"), Some(0.0));
    }

    proptest! {
        #[test]
        fn for_every_response_there_is_a_score(
            response in "(\\PC|<think>|</think>|<answer>|</answer>|\n|[0-9]){0,40}", label in "[A-D]|[0-9]{1,3}|red"
        ) {
            for config in [r#"{"check": "both"}"#, r#"{"check": "both", "mode": "relax"}"#, r#"{"check": "both", "mode": "open-r1"}"#] {
                let score = reward(config, Some(&label), "{}", &response).unwrap();
                prop_assert!((0.0..=2.0).contains(&score));
            }
        }
    }
}
