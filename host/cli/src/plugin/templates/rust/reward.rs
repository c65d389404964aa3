//! A reward: 1 when the response contains the label as a word of its own, else 0.

use whet_plugin::{Configured, Group, Outcome, Reward, reward};

/// The keys that a recipe may write under `config`.
#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Upper and lower case count.
    case_sensitive: bool,
}

struct Contains(Config);

impl Configured for Contains {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
        "type": "object",
        "properties": {
            "case_sensitive": {"type": "boolean", "default": false, "description": "upper and lower case count"}
        },
        "additionalProperties": false
    }"#;
    fn new(config: Config) -> Result<Self, String> {
        Ok(Contains(config))
    }
}

impl Reward for Contains {
    fn score(&self, group: &Group) -> Vec<Outcome> {
        let Some(label) = &group.label else {
            return group.all(Outcome::unscorable("the row has no label"));
        };
        let label = self.folded(label);
        let grade = |response: &str| {
            let response = self.folded(response);
            let words = response.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty());
            let found = words.clone().any(|word| word == label);
            Outcome::correct(found).note(format!("{} words", words.count()))
        };
        group.samples.iter().map(|sample| grade(&sample.response)).collect()
    }
}

reward!(Contains: Configured);

impl Contains {
    fn folded(&self, text: &str) -> String {
        if self.0.case_sensitive { text.to_owned() } else { text.to_lowercase() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whet_plugin::testing;

    fn rewards(config: &str, label: Option<&str>, responses: &[&str]) -> Vec<Option<f64>> {
        let plugin: Contains = testing::configured(config).unwrap();
        let outcomes = plugin.score(&testing::group(label, responses));
        let reward = |outcome| match outcome {
            Outcome::Scored(grade) => Some(grade.components[0].value),
            _ => None,
        };
        outcomes.into_iter().map(reward).collect()
    }

    #[test]
    fn the_label_must_be_a_whole_word() {
        let found = rewards("{}", Some("Rome"), &["It is rome.", "Romeo and Juliet", ""]);
        assert_eq!(found, [Some(1.0), Some(0.0), Some(0.0)]);
        assert_eq!(rewards(r#"{"case_sensitive": true}"#, Some("Rome"), &["rome"]), [Some(0.0)]);
    }

    #[test]
    fn a_row_without_a_label_has_no_score() {
        assert_eq!(rewards("{}", None, &["Rome"]), [None]);
    }
}
