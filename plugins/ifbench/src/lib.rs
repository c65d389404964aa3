//! `ifbench`: 1 when the response follows all instructions that its row names, else 0.
//!
//! What it reads, its options and its components are those of `instruction_core::plugin`; `compat` is
//! `"allenai"`. Every id of IFEval (25) and of IFBench (58) is known.

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
    const SCHEMA: &'static str = instruction_core::schema!("allenai");

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
