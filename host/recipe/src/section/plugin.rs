//! `[reward]`, `[[filter]]`, `[advantage]`, `[on-failure]`: plugins and what they may do.

use super::{Combine, Gate};
use crate::quantity::as_text;
use crate::{ByteSize, Time};
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// A plugin and the terms on which it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PluginUse {
    /// A standard plugin's name, or a path to a `.wasm` file.
    #[schemars(length(min = 1), extend("examples" = ["math-answer", "plugins/mine.wasm"]))]
    pub plugin: String,
    /// The plugin's own options; `whet plugin inspect` prints their schema.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// Capabilities that it may use: `random`, `store`, `judge`, `judge:ROUTE`, `http:HOST`, `http-local:HOST`. Writing to the run's log needs none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// Bounds of one call.
    #[serde(default)]
    pub limits: Limits,
    /// Content digest that the file must have, as `whet plugin inspect` prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "digest", "pattern" = "^sha256:[0-9a-f]{64}$"))]
    pub digest: Option<String>,
    /// Speed, or bit-for-bit repeatability on any machine.
    #[serde(default)]
    pub profile: Profile,
}

/// A reward plugin and its part in the total.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Reward {
    /// The plugin.
    #[serde(flatten)]
    pub plugin: PluginUse,
    /// What its components are called by, as in `NAME/component`; without it the plugin's own name, a second one of which is `NAME.2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("examples" = ["short"]))]
    pub name: Option<String>,
    /// Factor of this plugin's reward in the total.
    #[serde(default = "one")]
    pub weight: f64,
    /// Factors of the plugin's named components in its reward; where silent 1, but 0 beside one named `reward`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub weights: IndexMap<String, f64>,
    /// How this plugin's reward enters the total.
    #[serde(default)]
    pub combine: Combine,
    /// Conditions on components of any plugin of the recipe; where one does not hold, this plugin's reward counts as 0.
    #[serde(default, deserialize_with = "super::one_or_many", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::one_or_many_schema::<Gate>")]
    pub gate: Vec<Gate>,
}

impl Reward {
    /// The names of several rewards, in their order and all different where the given ones are.
    pub fn names(rewards: &[Reward]) -> Vec<String> {
        let given: Vec<&str> = rewards.iter().filter_map(|reward| reward.name.as_deref()).collect();
        let mut names: Vec<String> = Vec::new();
        for reward in rewards {
            let own = reward.plugin.own_name();
            let name = reward.name.clone().unwrap_or_else(|| {
                let numbered = (2..).map(|n| format!("{own}.{n}"));
                let is_free = |name: &String| !names.contains(name) && !given.contains(&name.as_str());
                std::iter::once(own.clone()).chain(numbered).find(is_free).unwrap_or(own)
            });
            names.push(name);
        }
        names
    }
}

impl PluginUse {
    /// A standard plugin's name, or that of the file without its ending.
    pub fn own_name(&self) -> String {
        let stem = Path::new(&self.plugin).file_stem().filter(|_| self.names_a_file());
        stem.map_or_else(|| self.plugin.clone(), |stem| stem.to_string_lossy().into_owned())
    }
}

/// A capability that a plugin may use.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Grant {
    /// Random numbers that follow from the recipe's seed.
    Random,
    /// Values kept between calls.
    Store,
    /// Questions to a language model: to any judge of the recipe, or to one.
    Judge(Option<String>),
    /// HTTP requests to one host.
    Http {
        /// The host, with its port if it needs one.
        host: String,
        /// Also where the name leads to this machine or a private network.
        local: bool,
    },
}

/// Bounds of one plugin call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Limits {
    /// Wall time of one call, without what it waits for judges and servers.
    pub time: Time,
    /// What one call may wait for judges and servers, all its requests together. A request that would take longer times out.
    pub wait: Time,
    /// Linear memory, summed over all memories.
    pub memory: ByteSize,
    /// What it may keep in `store` for the run.
    pub store: ByteSize,
}

/// How a plugin is compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Fastest; stopped by the clock.
    #[default]
    Fast,
    /// Same bits on every machine: instructions are counted, NaN has one form, threads and the clock do not matter.
    Deterministic,
}

/// What happens to samples that a plugin failed to score.
///
/// A failed sample never gets a number: after the retries it is left out of its group's statistics and of the loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct OnFailure {
    /// Times that a call is repeated when its failure may pass.
    #[schemars(range(max = 100))]
    pub retries: u32,
    /// The run stops when a larger part of a step's samples has no score because a plugin failed.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub abort_above: f64,
}

impl FromStr for Grant {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "random" => Grant::Random,
            "store" => Grant::Store,
            "judge" => Grant::Judge(None),
            _ => match text.split_once(':') {
                Some(("judge", route)) if !route.is_empty() => Grant::Judge(Some(route.to_owned())),
                Some((http @ ("http" | "http-local"), host))
                    if !host.is_empty() && !host.contains(['/', ' ', '*', '@']) =>
                {
                    Grant::Http { host: host.to_owned(), local: http == "http-local" }
                }
                _ => {
                    return Err(format!(
                        "`{text}` is not a capability; write \"random\", \"store\", \"judge\", \"judge:\" and a route, or \
                         \"http:\" and one host name, as in \"http:api.example.com\""
                    ));
                }
            },
        })
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Grant::Random => f.write_str("random"),
            Grant::Store => f.write_str("store"),
            Grant::Judge(None) => f.write_str("judge"),
            Grant::Judge(Some(route)) => write!(f, "judge:{route}"),
            Grant::Http { host, local: false } => write!(f, "http:{host}"),
            Grant::Http { host, local: true } => write!(f, "http-local:{host}"),
        }
    }
}

as_text!(
    Grant,
    "Grant",
    "grant",
    "http:api.example.com",
    "`random`, `store`, `judge`, `judge:ROUTE`, `http:HOST` or `http-local:HOST`."
);

impl Default for Limits {
    fn default() -> Self {
        Limits {
            time: Time(Duration::from_secs(1)),
            wait: Time(Duration::from_secs(120)),
            memory: ByteSize(64 << 20),
            store: ByteSize(1 << 20),
        }
    }
}

impl Default for OnFailure {
    fn default() -> Self {
        OnFailure { retries: 1, abort_above: 0.5 }
    }
}

fn one() -> f64 {
    1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewards_of_one_plugin_have_different_names() {
        let reward = |name: Option<&str>, plugin: &str| -> Reward {
            serde_json::from_value(serde_json::json!({ "name": name, "plugin": plugin })).unwrap()
        };
        let rewards = [
            reward(None, "length"),
            reward(Some("short"), "length"),
            reward(None, "length"),
            reward(None, "mine/length.wasm"),
            reward(Some("length.3"), "format"),
        ];
        assert_eq!(Reward::names(&rewards), ["length", "short", "length.2", "length.4", "length.3"]);
    }
}
