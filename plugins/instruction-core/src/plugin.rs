//! What the plugins `ifeval` and `ifbench` have in common: settings, components, outcomes.
//!
//! The reward is 1 when the response follows all instructions that its row names, else 0. The row's
//! metadata has `instruction_id` and `kwargs`, or `instruction_id_list` and `kwargs_list` (the data set's
//! own `kwargs` list does as well, with its nulls and floats). A row with an unknown id, or with arguments
//! that are missing or impossible, is unscorable: nothing is drawn at random.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `mode` | `"strict"` | `"loose"`: also without the first line, the last line, both, and asterisks |
//! | `score` | `"all"` | `"fraction"`: the part of the instructions that is followed |
//! | `compat` | - | the peer's name: accept what the official checkers accept where they differ |
//!
//! A row's own `mode` goes before the configured one. Components: `reward`; each instruction's verdict
//! under its id (`keywords:existence`), a second and third one of the same id as `keywords:existence.2`
//! and `.3`; in loose mode `strict`, the strict verdict on all. The note says what fell short.
//!
//! What is checked is what stands behind `</think>`, without end tokens. An empty response follows
//! nothing. Where it cannot be told whether an instruction is followed (a few words in an unclear
//! language, say) and the reward hangs on it, the sample is unscorable. The rule of each id is in
//! `docs/rewards.md`.

use crate::{Finding, Grade, Mode, Row, Rules};
use whet_plugin::{Group, Outcome};

/// How verdicts become the reward.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Score {
    /// 1 when all instructions are followed, else 0.
    #[default]
    All,
    /// The part of them that is followed.
    Fraction,
}

/// The configuration, with the plugin's own name for its peer's rules.
#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config<Peer> {
    mode: Mode,
    score: Score,
    compat: Option<Peer>,
}

impl<Peer> Default for Config<Peer> {
    fn default() -> Self {
        Config { mode: Mode::default(), score: Score::default(), compat: None }
    }
}

/// The schema of [`Config`] where its peer has this name. A macro, since the text must be a literal.
#[macro_export]
macro_rules! schema {
    ($peer:literal) => {
        concat!(
            r#"{
  "type": "object",
  "properties": {
    "mode": {"enum": ["strict", "loose"], "default": "strict", "description": "loose: also without the first line, the last line, both, and asterisks; a row's own mode goes first"},
    "score": {"enum": ["all", "fraction"], "default": "all", "description": "1 when all instructions are followed, or the part that is"},
    "compat": {"enum": [""#,
            $peer,
            r#""], "description": "accept what the official checkers accept where they differ"}
  },
  "additionalProperties": false
}"#
        )
    };
}

/// The configuration, read.
pub struct Settings {
    mode: Mode,
    score: Score,
    rules: Rules,
}

impl<Peer> From<Config<Peer>> for Settings {
    fn from(config: Config<Peer>) -> Self {
        let rules = if config.compat.is_some() { Rules::Official } else { Rules::Right };
        Settings { mode: config.mode, score: config.score, rules }
    }
}

/// One outcome per sample. A row that cannot be read is unscorable for all of them.
pub fn grade_group(group: &Group, settings: &Settings) -> Vec<Outcome> {
    let row = match Row::read(&group.metadata) {
        Ok(row) => row,
        Err(why) => return group.all(Outcome::unscorable(why)),
    };
    group.samples.iter().map(|sample| outcome(&row, &sample.response, settings)).collect()
}

fn outcome(row: &Row, response: &str, settings: &Settings) -> Outcome {
    let mode = row.mode.unwrap_or(settings.mode);
    let grade = row.grade(response, mode, settings.rules);
    let reward = match settings.score {
        Score::All => grade.all().map(f64::from),
        Score::Fraction => grade.fraction(),
    };
    let Some(reward) = reward else {
        return Outcome::unscorable(grade.undecided().unwrap_or_default());
    };
    let mut outcome = Outcome::scored(reward);
    if mode == Mode::Loose
        && let Some(strict) = row.grade(response, Mode::Strict, settings.rules).all()
    {
        outcome = outcome.component("strict", f64::from(strict));
    }
    for (name, followed) in verdicts(&grade) {
        outcome = outcome.component(name, f64::from(followed));
    }
    match note(&grade) {
        Some(note) => outcome.note(note),
        None => outcome,
    }
}

/// Each instruction's verdict under its id; the second and third of one id as `id.2` and `id.3`. Later
/// ones count, but have no name.
fn verdicts(grade: &Grade) -> Vec<(String, bool)> {
    let mut named: Vec<(String, bool)> = Vec::new();
    for (at, (id, finding)) in grade.findings.iter().enumerate() {
        let nth = 1 + grade.findings[..at].iter().filter(|(earlier, _)| earlier == id).count();
        let name = if nth == 1 { id.clone() } else { format!("{id}.{nth}") };
        if nth <= 3 && !matches!(finding, Finding::Undecided(_)) {
            named.push((name, *finding == Finding::Followed));
        }
    }
    named
}

/// What fell short, for people.
fn note(grade: &Grade) -> Option<String> {
    let short: Vec<String> = grade
        .findings
        .iter()
        .filter_map(|(id, finding)| match finding {
            Finding::Followed => None,
            Finding::NotFollowed(why) | Finding::Undecided(why) => Some(format!("{id}: {why}")),
        })
        .collect();
    (!short.is_empty()).then(|| short.join("; "))
}

/// The names of an id's verdicts.
macro_rules! components {
    ($($id:literal)*) => {
        /// Every component that the plugins may return.
        pub const COMPONENTS: &[&str] =
            &["reward", "strict", $($id, concat!($id, ".2"), concat!($id, ".3")),*];
    };
}

components! {
    "keywords:existence"
    "keywords:frequency"
    "keywords:forbidden_words"
    "keywords:letter_frequency"
    "sentence:keyword"
    "count:keywords_multiple"
    "length_constraints:number_sentences"
    "length_constraints:number_paragraphs"
    "length_constraints:number_words"
    "length_constraints:nth_paragraph_first_word"
    "count:word_count_range"
    "language:response_language"
    "detectable_content:number_placeholders"
    "detectable_content:postscript"
    "startend:end_checker"
    "startend:quotation"
    "punctuation:no_comma"
    "detectable_format:number_bullet_lists"
    "detectable_format:constrained_response"
    "detectable_format:number_highlighted_sections"
    "detectable_format:multiple_sections"
    "detectable_format:json_format"
    "detectable_format:title"
    "combination:two_responses"
    "combination:repeat_prompt"
    "change_case:capital_word_frequency"
    "change_case:english_capital"
    "change_case:english_lowercase"
    "format:title_case"
    "count:unique_word_count"
    "count:conjunctions"
    "count:person_names"
    "count:numbers"
    "count:pronouns"
    "count:punctuation"
    "count:words_japanese"
    "words:palindrome"
    "ratio:stop_words"
    "ratio:sentence_type"
    "ratio:sentence_balance"
    "ratio:overlap"
    "ratio:sentence_words"
    "words:vowel"
    "words:consonants"
    "words:prime_lengths"
    "words:repeats"
    "words:start_verb"
    "format:newline"
    "format:no_whitespace"
    "words:alphabet"
    "words:odd_even_syllables"
    "words:last_first"
    "words:paragraph_last_first"
    "words:no_consecutive"
    "words:keywords_specific_position"
    "words:words_position"
    "sentence:alliteration_increment"
    "sentence:increment"
    "format:options"
    "format:emoji"
    "format:line_indent"
    "format:list"
    "format:thesis"
    "format:sub-bullets"
    "format:no_bullets_bullets"
    "format:output_template"
    "format:parentheses"
    "format:quotes"
    "format:quote_unquote"
    "custom:multiples"
    "custom:mcq_count_length"
    "custom:reverse_newline"
    "custom:word_reverse"
    "custom:character_reverse"
    "custom:sentence_alphabet"
    "custom:european_capitals_sort"
    "custom:csv_city"
    "custom:csv_special_character"
    "custom:csv_quotes"
    "custom:date_format_list"
    "repeat:repeat_change"
    "repeat:repeat_simple"
    "repeat:repeat_span"
}
