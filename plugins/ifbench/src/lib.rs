//! `ifbench`: 1 when the response follows all instructions that its row names, else 0.
//!
//! The row's metadata has `instruction_id` and `kwargs`, or `instruction_id_list` and `kwargs_list` (the
//! data set's own `kwargs` list does as well, with its nulls and floats). Every id of IFEval (25) and of
//! IFBench (58) is known. A row with an unknown id, or with arguments that are missing or impossible, is
//! unscorable: nothing is drawn at random.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `mode` | `"strict"` | `"loose"`: also without the first line, the last line, both, and asterisks |
//! | `score` | `"all"` | `"fraction"`: the part of the instructions that is followed |
//! | `compat` | - | `"allenai"`: accept what the official checkers accept where they differ |
//!
//! A row's own `mode` goes before the configured one. Components: `reward`; each instruction's verdict
//! under its id (`keywords:existence`), a second and third one of the same id as `keywords:existence.2`
//! and `.3`; in loose mode `strict`, the strict verdict on all. The note says what fell short.
//!
//! What is checked is what stands behind `</think>`, without end tokens. An empty response follows
//! nothing. Where it cannot be told whether an instruction is followed (a few words in an unclear
//! language, say) and the reward hangs on it, the sample is unscorable. The rule of each id is in
//! `docs/rewards.md`.

use instruction_core::{COMPONENTS, Settings, grade_group};
use whet_plugin::{Configured, Group, Outcome, Reward, reward};

#[derive(serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Peer {
    Allenai,
}

struct Ifbench(Settings);

impl Configured for Ifbench {
    type Config = instruction_core::Config<Peer>;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "properties": {
    "mode": {"enum": ["strict", "loose"], "default": "strict", "description": "loose: also without the first line, the last line, both, and asterisks; a row's own mode goes first"},
    "score": {"enum": ["all", "fraction"], "default": "all", "description": "1 when all instructions are followed, or the part that is"},
    "compat": {"enum": ["allenai"], "description": "accept what the official checkers accept where they differ"}
  },
  "additionalProperties": false
}"#;
    fn new(config: Self::Config) -> Result<Self, String> {
        Ok(Ifbench(config.into()))
    }
}

impl Reward for Ifbench {
    const COMPONENTS: &'static [&'static str] = COMPONENTS;

    fn score(&self, group: &Group) -> Vec<Outcome> {
        grade_group(group, &self.0)
    }
}

reward!(Ifbench: Configured);

#[cfg(test)]
mod tests {
    use super::*;
    use whet_plugin::testing::{configured, group};

    fn score(config: &str, metadata: &str, response: &str) -> Outcome {
        let plugin: Ifbench = configured(config).unwrap();
        let mut group = group(None, &[response]);
        group.metadata = metadata.to_owned();
        plugin.score(&group).remove(0)
    }

    fn components(outcome: Outcome) -> Vec<(String, f64)> {
        let Outcome::Scored(grade) = outcome else { panic!("{outcome:?}") };
        grade.components.into_iter().map(|c| (c.name, c.value)).collect()
    }

    #[test]
    fn the_peers_rules_have_its_name() {
        let row = r#"{"instruction_id": "keywords:existence", "kwargs": {"keywords": ["art"]}}"#;
        assert_eq!(components(score("{}", row, "We start."))[0].1, 0.0);
        assert_eq!(components(score(r#"{"compat": "allenai"}"#, row, "We start."))[0].1, 1.0);
        assert!(configured::<Ifbench>(r#"{"compat": "other"}"#).is_err());
    }
}
