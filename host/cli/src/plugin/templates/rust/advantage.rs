//! An estimator: the reward less the mean of its group, times `scale`.

use whet_plugin::{Advantage, Advantages, Batch, Configured, Error, advantage};

/// The keys that a recipe may write under `config`.
#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Factor of every advantage.
    scale: f32,
}

impl Default for Config {
    fn default() -> Self {
        Config { scale: 1.0 }
    }
}

struct Centred(Config);

impl Configured for Centred {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
        "type": "object",
        "properties": {
            "scale": {"type": "number", "default": 1, "description": "factor of every advantage"}
        },
        "additionalProperties": false
    }"#;
    fn new(config: Config) -> Result<Self, String> {
        Ok(Centred(config))
    }
}

impl Advantage for Centred {
    fn estimate(&self, batch: &Batch) -> Result<Advantages, Error> {
        let mean_of = |group: u32| {
            let members = batch.groups.iter().zip(&batch.rewards);
            let scores: Vec<f32> =
                members.filter(|(g, r)| **g == group && r.is_finite()).map(|(_, r)| *r).collect();
            scores.iter().sum::<f32>() / scores.len().max(1) as f32
        };
        let advantage = |(&reward, &group): (&f32, &u32)| {
            // A sample without a score teaches nothing.
            if reward.is_finite() { self.0.scale * (reward - mean_of(group)) } else { 0.0 }
        };
        Ok(Advantages::PerSample(batch.rewards.iter().zip(&batch.groups).map(advantage).collect()))
    }
}

advantage!(Centred: Configured);

#[cfg(test)]
mod tests {
    use super::*;
    use whet_plugin::testing;

    #[test]
    fn rewards_are_centred_within_their_group() {
        let plugin: Centred = testing::configured(r#"{"scale": 2}"#).unwrap();
        let batch = Batch {
            rewards: vec![1.0, 0.0, 5.0, f32::NAN],
            groups: vec![0, 0, 1, 1],
            ..Batch::default()
        };
        let advantages = plugin.estimate(&batch).unwrap();
        assert_eq!(advantages, Advantages::PerSample(vec![1.0, -1.0, 0.0, 0.0]));
    }
}
