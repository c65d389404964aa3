//! `dedup`: a filter that drops rows that ask what an earlier row has asked.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `match` | `"normalised"` | `"exact"`: the same characters; `"normalised"`: the same but for case, white space and typographic quotes and dashes; `"near"`: mostly the same words |
//! | `compare` | `"conversation"` | or `"question"`: the last message of the user alone |
//! | `threshold` | `0.8` | `"near"`: Jaccard similarity of the sets of three-word sequences from which rows count as the same |
//!
//! Reasons are `duplicate` and `near-duplicate`. The first of several equal rows is kept, whatever
//! the labels say (`whet doctor` reports equal prompts with different labels). Digits and signs
//! always count: `3 + 4` and `3 - 4` are not the same. It keeps every group.
//!
//! Rows come in parts, so what was seen is kept in `store`, which the recipe grants:
//!
//! ```toml
//! [[filter]]
//! plugin = "dedup"
//! grants = ["store"]
//! ```
//!
//! `exact` and `normalised` need 12 bytes per row and fit 75,000 rows into the store's 1 MiB; `near`
//! needs 200 bytes per row, so that more than 4,000 rows want `limits = { store = "16MiB" }`, and
//! finds its candidates by MinHash: of pairs at the threshold it finds 98 % or more, with a
//! similarity that is estimated from 64 hashes, give or take 0.05. The first 2,000 sequences of a
//! prompt count.
//!
//! With `data.examples` or a long `data.system` all conversations are alike: write
//! `compare = "question"` for `near` then.

mod near;
mod seen;
mod text;

use near::Near;
use seen::Seen;
use whet_plugin::{Configured, Error, Filter, Message, Role, Row, Verdict, filter};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default, rename = "match")]
    by: Match,
    #[serde(default)]
    compare: Compare,
    #[serde(default = "threshold")]
    threshold: f64,
}

fn threshold() -> f64 {
    0.8
}

#[derive(Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Match {
    Exact,
    #[default]
    Normalised,
    Near,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Compare {
    #[default]
    Conversation,
    Question,
}

struct Dedup(Config);

impl Configured for Dedup {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "properties": {
    "match": {"enum": ["exact", "normalised", "near"], "default": "normalised", "description": "what makes two rows the same"},
    "compare": {"enum": ["conversation", "question"], "default": "conversation", "description": "all messages, or the user's last one"},
    "threshold": {"type": "number", "minimum": 0.5, "maximum": 1, "default": 0.8, "description": "near: similarity from which rows count as the same"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        if !(0.5..=1.0).contains(&config.threshold) {
            return Err(format!("`threshold` must lie between 0.5 and 1, not at {}", config.threshold));
        }
        Ok(Dedup(config))
    }
}

impl Filter for Dedup {
    fn keep_rows(&self, rows: &[Row]) -> Result<Vec<Verdict>, Error> {
        let flags = match self.0.by {
            Match::Exact => self.seen("exact", rows, str::to_owned)?,
            Match::Normalised => self.seen("normalised", rows, text::normalised)?,
            Match::Near => {
                let mut near = Near::open(&self.scope("near"), self.0.threshold)?;
                let flag = |row: &Row| near.is_repeated(&text::words(&self.text(row)), &row.id);
                let flags = rows.iter().map(flag).collect();
                near.save()?;
                flags
            }
        };
        let reason = if self.0.by == Match::Near { "near-duplicate" } else { "duplicate" };
        Ok(flags
            .into_iter()
            .map(|again| if again { Verdict::drop(reason) } else { Verdict::keep() })
            .collect())
    }
}

filter!(Dedup: Configured);

impl Dedup {
    /// Whether each row, changed by `change`, has been seen.
    fn seen(&self, how: &str, rows: &[Row], change: impl Fn(&str) -> String) -> Result<Vec<bool>, Error> {
        let mut seen = Seen::open(&self.scope(how));
        let flags = rows.iter().map(|row| seen.is_repeated(&change(&self.text(row)), &row.id)).collect();
        seen.save()?;
        Ok(flags)
    }

    /// Two filters of one recipe that compare differently keep their own books.
    fn scope(&self, how: &str) -> String {
        let what = if self.0.compare == Compare::Question { "question" } else { "conversation" };
        format!("{how}/{what}")
    }

    fn text(&self, row: &Row) -> String {
        let user = row.prompt.iter().rev().find(|m| m.role == Role::User);
        match (self.0.compare, user) {
            (Compare::Question, Some(question)) => question.joined_text(),
            _ => {
                let turn = |m: &Message| format!("{:?}: {}", m.role, m.joined_text());
                row.prompt.iter().map(turn).collect::<Vec<_>>().join("\n")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whet_plugin::testing::configured;

    fn rows(first: usize, texts: &[&str]) -> Vec<Row> {
        let row = |(i, text): (usize, &&str)| Row {
            id: format!("row {}", first + i),
            prompt: vec![
                Message::text(Role::System, format!("Number {}.", text.len() % 2)),
                Message::text(Role::User, *text),
            ],
            label: None,
            metadata: "{}".into(),
            prompt_tokens: 1,
        };
        texts.iter().enumerate().map(row).collect()
    }

    fn kept(config: &str, rows: &[Row]) -> Vec<bool> {
        let verdicts = configured::<Dedup>(config).unwrap().keep_rows(rows).unwrap();
        verdicts.into_iter().map(|v| v.keep).collect()
    }

    #[test]
    fn exact_and_normalised_differ_in_what_they_overlook() {
        let rows = rows(0, &["What is 3 + 4?", "what  is 3 + 4? ", "What is 3 - 4?", "What is 3 + 4?"]);
        assert_eq!(kept(r#"{"match": "exact", "compare": "question"}"#, &rows), [true, true, true, false]);
        assert_eq!(kept(r#"{"compare": "question"}"#, &rows), [true, false, true, false]);
    }

    #[test]
    fn rows_of_later_parts_are_compared_with_those_of_earlier_ones() {
        assert_eq!(kept("{}", &rows(0, &["a", "b"])), [true, true]);
        assert_eq!(kept("{}", &rows(2, &["c", "B", "c"])), [true, false, false]);
        let near = r#"{"match": "near"}"#;
        let long = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen.";
        assert_eq!(kept(near, &rows(0, &[long])), [true]);
        assert_eq!(kept(near, &rows(1, &[&format!("{long} Fifteen")])), [false]);
    }

    #[test]
    fn a_row_is_no_repetition_of_itself_so_the_same_filter_may_stand_twice() {
        let rows = rows(0, &["a", "b"]);
        for config in [r#"{"match": "exact"}"#, "{}", r#"{"match": "near"}"#] {
            assert_eq!(kept(config, &rows), [true, true], "{config}");
            assert_eq!(kept(config, &rows), [true, true], "{config}, again");
        }
    }

    #[test]
    fn the_whole_conversation_counts_unless_the_recipe_says_question() {
        let mut rows = rows(0, &["a", "a"]);
        rows[1].prompt[0] = Message::text(Role::System, "Answer in rhymes.");
        assert_eq!(kept("{}", &rows), [true, true]);
        assert_eq!(kept(r#"{"compare": "question"}"#, &rows), [true, false]);
    }

    #[test]
    fn an_unknown_key_or_a_threshold_out_of_range_is_refused() {
        for config in [r#"{"match": "fuzzy"}"#, r#"{"threshold": 0.1}"#, r#"{"treshold": 0.9}"#] {
            assert!(configured::<Dedup>(config).is_err(), "{config}");
        }
    }
}
