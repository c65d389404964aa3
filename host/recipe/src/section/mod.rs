//! The recipe's sections as types: one file per section, defaults beside the fields they fill.
//!
//! The doc comment of a field is its description in the JSON Schema and in the reference, so it
//! speaks to the person who writes recipes.

mod algorithm;
mod critic;
mod data;
mod gate;
mod judge;
mod model;
mod plugin;
mod recipe;
mod rollout;
mod run;
mod task;
mod teacher;
mod train;

pub(crate) use algorithm::kinds;
pub use algorithm::{
    AdaptiveKl, Against, Algorithm, Alignment, Baseline, Correction, Entropy, Estimator, GaeSteps, Gaps, Kl,
    KlEstimator, KlGradient, Loss, Measure, Old, Over, Overlong, Placement, Preset, Ratio, Reduction, Region,
    Rejection, Scale, Singleton, Span, Surrogate, Variance, WeightLevel, Whiten,
};
pub use critic::Critic;
pub use data::{Columns, Data, DataPath, DataPathError, Example, Examples, PromptFormat, Slice};
pub(crate) use gate::is_name;
pub use gate::{Combine, Comparison, Gate};
pub use judge::Judge;
pub use model::{Device, Dtype, Lora, LoraTarget, Model};
pub use plugin::{Grant, Limits, OnFailure, PluginUse, Profile, Reward};
pub use recipe::Recipe;
pub use rollout::{Dynamic, Rollout};
pub use run::{Eval, Log, Run};
pub use task::{Dpo, DpoLoss, Sft, Task, Turns};
pub use teacher::{RestOfTokens, Teacher, TeacherDivergence, TeacherLoss, TopTokens};
pub use train::{Schedule, Train};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

/// Reads one value, or a list of them, as a list.
fn one_or_many<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany<T> {
        Many(Vec<T>),
        One(T),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::Many(list) => list,
        OneOrMany::One(value) => vec![value],
    })
}

/// Schema of [`one_or_many`].
fn one_or_many_schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let one = generator.subschema_for::<T>();
    json_schema!({"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]})
}
