//! `language`: a filter that keeps rows or groups in the languages that are wanted.
//!
//! The language is detected (crate `whatlang`, 70 languages, from trigrams and scripts) in the text
//! without fenced code, formulas between dollar signs and addresses. Short texts are often unclear:
//! such rows and responses are kept, unless the recipe says otherwise.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `keep` | required | ISO 639 codes, of two or three letters, as in `["en", "deu"]` |
//! | `of` | `"prompt"` | what is looked at: `"prompt"` judges rows by what the user says, `"response"` judges groups |
//! | `confidence` | `0.5` | smallest confidence (0 to 1) of a detection that counts; below it a text is unclear |
//! | `unclear` | `"keep"` | or `"drop"`: texts whose language cannot be told |
//! | `share` | `0.5` | `of = "response"`: smallest part of a group's responses that must be in these languages |
//! | `keep-if-short` | `false` | `of = "response"`: use dropped groups when too few are kept |
//!
//! Reasons are `language-CODE` with the three-letter code of the (most frequent) other language, and
//! `language-unclear`.
//!
//! ```toml
//! [[filter]]
//! plugin = "language"
//! config = { keep = ["en"] }
//! ```

mod detect;

use detect::{code, detect, language};
use std::collections::BTreeMap;
use whatlang::Lang;
use whet_plugin::{Configured, Error, Filter, Message, Role, Row, Sample, ScoredGroup, Verdict, filter};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Config {
    keep: Vec<String>,
    #[serde(default)]
    of: Of,
    #[serde(default)]
    unclear: Unclear,
    #[serde(default = "half")]
    confidence: f64,
    #[serde(default = "half")]
    share: f64,
    #[serde(default)]
    keep_if_short: bool,
}

fn half() -> f64 {
    0.5
}

#[derive(Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Of {
    #[default]
    Prompt,
    Response,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unclear {
    #[default]
    Keep,
    Drop,
}

struct Language {
    keep: Vec<Lang>,
    config: Config,
}

impl Configured for Language {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "properties": {
    "keep": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "ISO 639 codes of two or three letters"},
    "of": {"enum": ["prompt", "response"], "default": "prompt", "description": "prompt judges rows, response judges groups"},
    "confidence": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5, "description": "smallest confidence of a detection that counts"},
    "unclear": {"enum": ["keep", "drop"], "default": "keep", "description": "texts whose language cannot be told"},
    "share": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5, "description": "smallest part of a group's responses that must be in these languages"},
    "keep-if-short": {"type": "boolean", "default": false, "description": "use dropped groups when too few are kept"}
  },
  "required": ["keep"],
  "additionalProperties": false
}"#;
    fn new(config: Config) -> Result<Self, String> {
        if config.keep.is_empty() {
            return Err("`keep` must name at least one language".into());
        }
        for (key, part) in [("share", config.share), ("confidence", config.confidence)] {
            if !(0.0..=1.0).contains(&part) {
                return Err(format!("`{key}` lies between 0 and 1, not at {part}"));
            }
        }
        let keep = config.keep.iter().map(|code| {
            language(code).ok_or_else(|| {
                format!("{code:?} is not the ISO 639 code of a language that can be detected, as \"en\" and \"deu\" are")
            })
        });
        Ok(Language { keep: keep.collect::<Result<_, _>>()?, config })
    }
}

impl Filter for Language {
    fn keep_rows(&self, rows: &[Row]) -> Result<Vec<Verdict>, Error> {
        if self.config.of != Of::Prompt {
            return Ok(vec![Verdict::keep(); rows.len()]);
        }
        Ok(rows.iter().map(|row| self.row(row)).collect())
    }

    fn keep_groups(&self, groups: &[ScoredGroup]) -> Result<Vec<Verdict>, Error> {
        if self.config.of != Of::Response {
            return Ok(vec![Verdict::keep(); groups.len()]);
        }
        let verdict = |group: &ScoredGroup| match self.objection(&group.group.samples) {
            None => Verdict::keep(),
            Some(reason) if self.config.keep_if_short => Verdict::spare(reason),
            Some(reason) => Verdict::drop(reason),
        };
        Ok(groups.iter().map(verdict).collect())
    }
}

filter!(Language: Configured);

impl Language {
    /// What the user says decides: system messages and examples are often in another language.
    fn row(&self, row: &Row) -> Verdict {
        let asked: Vec<String> =
            row.prompt.iter().filter(|m| m.role == Role::User).map(Message::joined_text).collect();
        match detect(&asked.join("\n"), self.config.confidence) {
            None if self.config.unclear == Unclear::Keep => Verdict::keep(),
            None => Verdict::drop("language-unclear"),
            Some(found) if self.keep.contains(&found) => Verdict::keep(),
            Some(found) => Verdict::drop(format!("language-{}", code(found))),
        }
    }

    /// Why the group is not kept.
    fn objection(&self, samples: &[Sample]) -> Option<String> {
        let mut wanted = 0;
        let mut others: BTreeMap<&str, usize> = BTreeMap::new();
        for sample in samples {
            match detect(&sample.response, self.config.confidence) {
                Some(found) if self.keep.contains(&found) => wanted += 1,
                None if self.config.unclear == Unclear::Keep => wanted += 1,
                None => *others.entry("unclear").or_default() += 1,
                Some(found) => *others.entry(code(found)).or_default() += 1,
            }
        }
        if wanted as f64 >= self.config.share * samples.len() as f64 {
            return None;
        }
        let most = others.into_iter().max_by_key(|(_, count)| *count);
        most.map(|(name, _)| format!("language-{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whet_plugin::testing::{configured, group};

    const ENGLISH: &str = "Natalia sold clips to forty-eight of her friends in April, and then she sold half as many clips in May.";
    const GERMAN: &str = "Natalia verkaufte im April Haarspangen an achtundvierzig ihrer Freundinnen, und im Mai verkaufte sie dann nur noch halb so viele, weil das Wetter schlecht war.";
    const CHINESE: &str = "娜塔莉亚在四月份向她的四十八位朋友出售了发夹，然后在五月份售出了一半的数量。";

    fn rows(config: &str, texts: &[&str]) -> Vec<String> {
        let rows: Vec<Row> = texts
            .iter()
            .map(|text| Row {
                id: "r".into(),
                prompt: vec![Message::text(Role::System, ENGLISH), Message::text(Role::User, *text)],
                label: None,
                metadata: "{}".into(),
                prompt_tokens: 1,
            })
            .collect();
        let verdicts = configured::<Language>(config).unwrap().keep_rows(&rows).unwrap();
        verdicts.into_iter().map(|v| v.reason).collect()
    }

    #[test]
    fn rows_are_judged_by_what_the_user_says() {
        let found = rows(r#"{"keep": ["en"]}"#, &[ENGLISH, GERMAN, CHINESE, "42?"]);
        assert_eq!(found, ["kept", "language-deu", "language-cmn", "kept"]);
        let found = rows(r#"{"keep": ["deu", "zh"], "unclear": "drop"}"#, &[ENGLISH, GERMAN, CHINESE, "42?"]);
        assert_eq!(found, ["language-eng", "kept", "kept", "language-unclear"]);
    }

    #[test]
    fn code_and_formulas_have_no_language() {
        let german = format!(
            "{GERMAN} ```python\nfor element in the_list_of_all_things: print(element)\n``` $x = \\text{{where the value of it is}}$"
        );
        assert_eq!(rows(r#"{"keep": ["de"]}"#, &[&german]), ["kept"]);
    }

    #[test]
    fn groups_are_judged_by_the_share_of_their_responses() {
        let verdict = |config: &str, responses: &[&str]| {
            let scored = ScoredGroup { group: group(None, responses), rewards: vec![None; responses.len()] };
            configured::<Language>(config).unwrap().keep_groups(&[scored]).unwrap().remove(0).reason
        };
        let mixed = [ENGLISH, GERMAN, GERMAN, CHINESE];
        assert_eq!(verdict(r#"{"keep": ["en"], "of": "response"}"#, &mixed), "language-deu");
        assert_eq!(verdict(r#"{"keep": ["en"], "of": "response", "share": 0.25}"#, &mixed), "kept");
        assert_eq!(verdict(r#"{"keep": ["en"]}"#, &mixed), "kept", "only rows are judged");
    }

    #[test]
    fn a_language_that_cannot_be_detected_is_refused() {
        for config in [r#"{"keep": ["xx"]}"#, r#"{"keep": []}"#, "{}", r#"{"keep": ["english"]}"#] {
            assert!(configured::<Language>(config).is_err(), "{config}");
        }
    }
}
