//! `ifeval`: 1 when the response follows all instructions that its row names, else 0.
//!
//! What it reads, its options and its components are those of `instruction_core::plugin`; `compat` is
//! `"google-research"`. Every id of IFEval (25) and of IFBench (58) is known.

use instruction_core::{COMPONENTS, Settings, grade_group};
use whet_plugin::{Configured, Group, Outcome, Reward, reward};

#[derive(serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Peer {
    GoogleResearch,
}

struct Ifeval(Settings);

impl Configured for Ifeval {
    type Config = instruction_core::Config<Peer>;
    const SCHEMA: &'static str = instruction_core::schema!("google-research");

    fn new(config: Self::Config) -> Result<Self, String> {
        Ok(Ifeval(config.into()))
    }
}

impl Reward for Ifeval {
    const COMPONENTS: &'static [&'static str] = COMPONENTS;

    fn score(&self, group: &Group) -> Vec<Outcome> {
        grade_group(group, &self.0)
    }
}

reward!(Ifeval: Configured);

#[cfg(test)]
mod tests {
    use super::*;
    use whet_plugin::testing::{configured, describe, group};

    fn score(config: &str, metadata: &str, response: &str) -> Outcome {
        let plugin: Ifeval = configured(config).unwrap();
        let mut group = group(None, &[response]);
        group.metadata = metadata.to_owned();
        plugin.score(&group).remove(0)
    }

    fn components(outcome: Outcome) -> Vec<(String, f64)> {
        let Outcome::Scored(grade) = outcome else { panic!("{outcome:?}") };
        grade.components.into_iter().map(|c| (c.name, c.value)).collect()
    }

    const TWICE: &str = r#"{
        "instruction_id_list": ["length_constraints:number_words", "punctuation:no_comma", "length_constraints:number_words"],
        "kwargs_list": [{"relation": "at least", "num_words": 20}, {}, {"relation": "at least", "num_words": 2}]
    }"#;

    #[test]
    fn each_instruction_has_a_verdict_of_its_own_beside_the_reward() {
        let words = "length_constraints:number_words";
        let expected = |reward: f64| {
            [
                ("reward", reward),
                (words, 0.0),
                ("punctuation:no_comma", 1.0),
                ("length_constraints:number_words.2", 1.0),
            ]
            .map(|(name, value)| (name.to_owned(), value))
        };
        assert_eq!(components(score("{}", TWICE, "one two three")), expected(0.0));
        assert_eq!(
            components(score(r#"{"score": "fraction"}"#, TWICE, "one two three")),
            expected(2.0 / 3.0)
        );
        let declared = describe::<Ifeval>().components;
        assert!(expected(0.0).iter().all(|(name, _)| declared.contains(name)));
    }

    #[test]
    fn a_row_says_how_it_is_read_and_else_the_configuration() {
        let title = r#"{"instruction_id": "startend:end_checker", "kwargs": {"end_phrase": "Done."}"#;
        let (plain, loose) = (format!("{title}}}"), format!("{title}, \"mode\": \"loose\"}}"));
        assert_eq!(components(score("{}", &plain, "**Done.**"))[0].1, 0.0);
        for (config, metadata) in [("{}", &loose), (r#"{"mode": "loose"}"#, &plain)] {
            let found = components(score(config, metadata, "**Done.**"));
            assert_eq!(found[..2], [("reward".to_owned(), 1.0), ("strict".to_owned(), 0.0)]);
        }
    }

    #[test]
    fn faults_and_doubts_are_unscorable_unless_the_reward_is_clear() {
        for metadata in
            ["{}", r#"{"instruction_id": "no:such"}"#, r#"{"instruction_id": "words:start_verb"}"#]
        {
            assert!(matches!(score("{}", metadata, "Water boils."), Outcome::Unscorable(_)), "{metadata}");
        }
        let both = r#"{"instruction_id_list": ["words:start_verb", "format:no_whitespace"]}"#;
        assert_eq!(components(score("{}", both, "Water boils."))[0].1, 0.0);
        assert!(matches!(score(r#"{"score": "fraction"}"#, both, "Water boils."), Outcome::Unscorable(_)));
    }

    #[test]
    fn the_peers_rules_have_its_name() {
        let row = r#"{"instruction_id": "keywords:existence", "kwargs": {"keywords": ["art"]}}"#;
        assert_eq!(components(score("{}", row, "We start."))[0].1, 0.0);
        assert_eq!(components(score(r#"{"compat": "google-research"}"#, row, "We start."))[0].1, 1.0);
        assert!(configured::<Ifeval>(r#"{"compat": "other"}"#).is_err());
    }
}
