//! The whole recipe.

use super::{
    Algorithm, Critic, Data, Dpo, Eval, Judge, Log, Model, OnFailure, PluginUse, Reward, Rollout, Run, Sft,
    Task, Teacher, Train,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A training run: what is taught to which model, on which data, under which reward.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "Whet recipe")]
pub struct Recipe {
    /// Every random choice of the run follows from this number: data order, sampling, plugins.
    #[serde(default)]
    pub seed: u64,
    /// What the run teaches the model, and from what.
    #[serde(default)]
    pub task: Task,
    /// The model to train: its source as a text, or a table.
    #[serde(deserialize_with = "super::model::source_or_table")]
    #[schemars(schema_with = "super::model::source_or_table_schema")]
    pub model: Model,
    /// Prompts and reference answers.
    pub data: Data,
    /// What scores the responses: one `[reward]` table, or several `[[reward]]` that make one reward: a weighted sum, with factors and gates where they say so.
    /// Only other tasks than "rl", and distillation from a `[teacher]`, do without.
    #[serde(default, deserialize_with = "super::one_or_many", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::one_or_many_schema::<Reward>")]
    pub reward: Vec<Reward>,
    /// Language models that plugins may ask: one `[judge]` table, or several `[[judge]]`.
    #[serde(default, deserialize_with = "super::one_or_many", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::one_or_many_schema::<Judge>")]
    pub judge: Vec<Judge>,
    /// What happens to samples that a plugin failed to score.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Plugins that drop rows before sampling or groups before training, in order.
    #[serde(default, deserialize_with = "super::one_or_many", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::one_or_many_schema::<PluginUse>")]
    pub filter: Vec<PluginUse>,
    /// A plugin that turns rewards into advantages, in place of the algorithm's own estimator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advantage: Option<PluginUse>,
    /// How responses are sampled.
    #[serde(default)]
    pub rollout: Rollout,
    /// How rewards become a loss.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// The model of values that generalised advantage estimation reads (PPO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critic: Option<Critic>,
    /// The model that the trained one is distilled from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teacher: Option<Teacher>,
    /// How answers are imitated; present exactly with `task = "sft"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sft: Option<Sft>,
    /// How preferences become a loss; present exactly with `task = "dpo"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpo: Option<Dpo>,
    /// How the loss changes the weights.
    #[serde(default)]
    pub train: Train,
    /// How the model is measured on `data.test`; present exactly when there is test data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval: Option<Eval>,
    /// What the run writes down.
    #[serde(default)]
    pub log: Log,
    /// Where the run lives and how it can be resumed.
    #[serde(default)]
    pub run: Run,
}
