//! `format`: 1 when the whole response has the required structure, else 0.
//!
//! One of the first two, in the configuration:
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `tags` | `["think", "answer"]` | `<think>…</think>` then `<answer>…</answer>`: each tag once, in this order, nothing but white space around them, the last one not empty |
//! | `pattern` | - | a regular expression that must match the whole response; `.` matches line ends too |
//! | `prefill` | `""` | the beginning of the response that the chat template has already written, such as `<think>`; put before a response that does not start with it |
//!
//! Tokens that end a turn (`<|im_end|>`, `</s>`) do not count where a decoded text shows them.
//!
//! The note says what is missing or left over. A response is taken apart tag by tag, since one
//! expression over free text accepts trailing text or a second closing tag too easily.
//!
//! ```toml
//! [reward]
//! plugin = "format"
//! config = { pattern = "\\w+: -?[0-9]+" }
//! ```

use answer_text::tags::{self, Tag};
use regex_lite::Regex;
use whet_plugin::{Configured, Group, Outcome, Reward, reward};

#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    tags: Option<Vec<String>>,
    pattern: Option<String>,
    #[serde(default)]
    prefill: String,
}

struct Format {
    structure: Structure,
    prefill: String,
}

enum Structure {
    Tags(Vec<Tag>),
    Pattern(Regex),
}

impl Configured for Format {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "description": "Reads neither label nor metadata.",
  "properties": {
    "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "default": ["think", "answer"], "description": "names of the tags, in order"},
    "pattern": {"type": "string", "description": "a regular expression for the whole response, instead of tags"},
    "prefill": {"type": "string", "default": "", "description": "the beginning that the chat template has already written, such as <think>"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        let structure = match (config.tags, config.pattern) {
            (Some(_), Some(_)) => return Err("give `tags` or `pattern`, not both".into()),
            (Some(names), None) => Structure::Tags(tags::all(&names)?),
            (None, None) => Structure::Tags(tags::think_answer()),
            (None, Some(pattern)) => match Regex::new(&format!(r"(?s)\A(?:{pattern})\z")) {
                Ok(regex) => Structure::Pattern(regex),
                Err(e) => return Err(format!("`pattern` is no regular expression: {e}")),
            },
        };
        Ok(Format { structure, prefill: config.prefill })
    }
}

impl Reward for Format {
    fn score(&self, group: &Group) -> Vec<Outcome> {
        group.samples.iter().map(|sample| self.grade(&sample.response)).collect()
    }
}

reward!(Format: Configured);

impl Format {
    fn grade(&self, response: &str) -> Outcome {
        let response = tags::whole(&self.prefill, response);
        match &self.structure {
            Structure::Tags(tags) => match tags::check(tags, &response) {
                Ok(()) => Outcome::correct(true),
                Err(why) => Outcome::correct(false).note(why),
            },
            Structure::Pattern(regex) if regex.is_match(&response) => Outcome::correct(true),
            Structure::Pattern(_) => {
                Outcome::correct(false).note("the response does not match the pattern from end to end")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whet_plugin::testing::configured;

    fn fits(config: &str, response: &str) -> bool {
        configured::<Format>(config).unwrap().grade(response) == Outcome::correct(true)
    }

    #[test]
    fn a_pattern_must_match_from_end_to_end() {
        let config = r#"{"pattern": "a|b.*"}"#;
        for (response, expected) in [("a", true), ("bcd", true), ("b\nd", true), ("ab", false), ("xa", false)]
        {
            assert_eq!(fits(config, response), expected, "{response:?}");
        }
        assert!(!fits(r#"{"pattern": "a"}"#, "a\n"));
    }

    #[test]
    fn the_default_is_think_then_answer() {
        assert!(fits("{}", "<think>\n2+2\n</think>\n<answer>4</answer>\n"));
        assert!(!fits("{}", "<answer>4</answer><think>2+2</think>"));
        assert!(fits(r#"{"tags": ["a"]}"#, "<a>x</a>"));
    }

    #[test]
    fn what_the_template_has_written_and_end_tokens_are_no_part_of_the_response() {
        let prefilled = r#"{"prefill": "<think>\n"}"#;
        assert!(fits(prefilled, "2+2\n</think>\n<answer>4</answer><|im_end|>"));
        assert!(fits(prefilled, "<think>2+2</think><answer>4</answer>"));
        assert!(!fits("{}", "2+2\n</think>\n<answer>4</answer>"));
        assert!(fits(r#"{"pattern": "[0-9]+"}"#, "42<|endoftext|>"));
    }

    #[test]
    fn settings_that_mean_nothing_are_refused() {
        let bad = [
            r#"{"pattern": "("}"#,
            r#"{"tags": []}"#,
            r#"{"tags": ["a b"]}"#,
            r#"{"tags": ["a", "a"]}"#,
            r#"{"tags": ["a"], "pattern": "b"}"#,
            r#"{"tag": ["a"]}"#,
        ];
        for config in bad {
            assert!(configured::<Format>(config).is_err(), "{config}");
        }
    }
}
