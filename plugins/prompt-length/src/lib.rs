//! `prompt-length`: a filter that keeps rows whose prompt has a length within bounds.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `min` | `0` | shortest prompt that is kept |
//! | `max` | none | longest prompt that is kept |
//! | `unit` | `"tokens"` | of the rendered prompt; or `"characters"` of all messages |
//!
//! At least one of `min` and `max` must be given. Reasons are `prompt-too-short` and
//! `prompt-too-long`. Rows longer than `data.max-prompt-tokens` are left out before any filter sees
//! them. It keeps every group.
//!
//! ```toml
//! [[filter]]
//! plugin = "prompt-length"
//! config = { min = 5, max = 300, unit = "characters" }
//! ```

use whet_plugin::{Configured, Error, Filter, Message, Row, Verdict, filter};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    min: Option<u64>,
    max: Option<u64>,
    #[serde(default)]
    unit: Unit,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unit {
    #[default]
    Tokens,
    Characters,
}

struct PromptLength {
    min: u64,
    max: u64,
    unit: Unit,
}

impl Configured for PromptLength {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "properties": {
    "min": {"type": "integer", "minimum": 0, "description": "shortest prompt that is kept"},
    "max": {"type": "integer", "minimum": 0, "description": "longest prompt that is kept"},
    "unit": {"enum": ["tokens", "characters"], "default": "tokens"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        if config.min.is_none() && config.max.is_none() {
            return Err("give `min`, `max` or both: without them every row is kept".into());
        }
        let (min, max) = (config.min.unwrap_or(0), config.max.unwrap_or(u64::MAX));
        if min > max {
            return Err(format!("`min` = {min} is above `max` = {max}: no row would be kept"));
        }
        Ok(PromptLength { min, max, unit: config.unit })
    }
}

impl Filter for PromptLength {
    fn keep_rows(&self, rows: &[Row]) -> Result<Vec<Verdict>, Error> {
        let verdict = |row: &Row| match self.length(row) {
            length if length < self.min => Verdict::drop("prompt-too-short"),
            length if length > self.max => Verdict::drop("prompt-too-long"),
            _ => Verdict::keep(),
        };
        Ok(rows.iter().map(verdict).collect())
    }
}

filter!(PromptLength: Configured);

impl PromptLength {
    fn length(&self, row: &Row) -> u64 {
        match self.unit {
            Unit::Tokens => u64::from(row.prompt_tokens),
            Unit::Characters => {
                row.prompt.iter().map(Message::joined_text).map(|text| text.chars().count() as u64).sum()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whet_plugin::{Role, testing::configured};

    fn row(text: &str, prompt_tokens: u32) -> Row {
        Row {
            id: text.into(),
            prompt: vec![Message::text(Role::System, "é"), Message::text(Role::User, text)],
            label: None,
            metadata: "{}".into(),
            prompt_tokens,
        }
    }

    fn reasons(config: &str, rows: &[Row]) -> Vec<String> {
        let verdicts = configured::<PromptLength>(config).unwrap().keep_rows(rows).unwrap();
        verdicts.into_iter().map(|v| v.reason).collect()
    }

    #[test]
    fn tokens_are_those_of_the_rendered_prompt_and_both_ends_are_kept() {
        let rows = [row("a", 4), row("b", 5), row("c", 9), row("d", 10)];
        let found = reasons(r#"{"min": 5, "max": 9}"#, &rows);
        assert_eq!(found, ["prompt-too-short", "kept", "kept", "prompt-too-long"]);
    }

    #[test]
    fn characters_are_counted_over_all_messages_whatever_their_bytes() {
        let rows = [row("ab", 99), row("äöü", 99), row("abcd", 99)];
        let found = reasons(r#"{"min": 4, "max": 4, "unit": "characters"}"#, &rows);
        assert_eq!(found, ["prompt-too-short", "kept", "prompt-too-long"]);
    }

    #[test]
    fn bounds_that_keep_all_or_nothing_are_refused() {
        for config in ["{}", r#"{"unit": "tokens"}"#, r#"{"min": 9, "max": 5}"#, r#"{"min": -1}"#] {
            assert!(configured::<PromptLength>(config).is_err(), "{config}");
        }
    }
}
