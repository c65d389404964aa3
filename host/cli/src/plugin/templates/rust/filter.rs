//! A filter: drops groups in which more rewards are missing than `share` allows.

use whet_plugin::{Configured, Error, Filter, ScoredGroup, Verdict, filter};

/// The keys that a recipe may write under `config`.
#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Missing rewards that are tolerated, from 0 to 1.
    share: f64,
}

impl Default for Config {
    fn default() -> Self {
        Config { share: 0.5 }
    }
}

struct Complete(Config);

impl Configured for Complete {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
        "type": "object",
        "properties": {
            "share": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5, "description": "missing rewards that are tolerated"}
        },
        "additionalProperties": false
    }"#;
    fn new(config: Config) -> Result<Self, String> {
        Ok(Complete(config))
    }
}

impl Filter for Complete {
    fn keep_groups(&self, groups: &[ScoredGroup]) -> Result<Vec<Verdict>, Error> {
        let verdict = |group: &ScoredGroup| {
            let missing = group.rewards.iter().filter(|reward| reward.is_none()).count();
            if missing as f64 > self.0.share * group.rewards.len() as f64 {
                Verdict::drop("rewards-missing")
            } else {
                Verdict::keep()
            }
        };
        Ok(groups.iter().map(verdict).collect())
    }
}

filter!(Complete: Configured);

#[cfg(test)]
mod tests {
    use super::*;
    use whet_plugin::testing;

    #[test]
    fn a_group_is_kept_while_few_rewards_are_missing() {
        let group = |rewards: &[Option<f64>]| ScoredGroup {
            group: testing::group(None, &["a", "b"]),
            rewards: rewards.to_vec(),
        };
        let plugin: Complete = testing::configured("{}").unwrap();
        let groups = [group(&[Some(1.0), None]), group(&[None, None])];
        let verdicts = plugin.keep_groups(&groups).unwrap();
        assert_eq!(verdicts.iter().map(|v| v.keep).collect::<Vec<_>>(), [true, false]);
    }
}
