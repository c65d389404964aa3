//! The typed recipe: parse, defaults, validation, and the rows of its data; knows nothing of tensors or wasm.
//!
//! A recipe is one TOML file. [`Recipe::load`] reads it, checks every key against the types of
//! [`section`] (whose JSON Schema is [`schema()`]), then against the rules that no single type can
//! express, and reports everything that is wrong at once. [`data`] opens the files it names.

pub mod algorithms;
pub mod data;
pub mod definition;
pub mod section;

mod asking;
mod combination;
mod diagnostic;
mod document;
mod error;
mod expand;
mod formula;
mod load;
mod memory;
mod preset;
mod quantity;
pub mod reward_words;
mod rules;
mod schema;
mod shape;
mod starter;
pub mod task_words;
mod tasks;

pub use error::{Place, Problem, RecipeError, RecipeErrors};
pub use memory::{MemoryEstimate, ModelNumbers, estimate, kv_bytes_per_token};
pub use quantity::{ByteSize, QuantityError, Time};
pub use schema::schema;
pub use section::{
    AdaptiveKl, Against, Algorithm, Alignment, Baseline, Columns, Combine, Comparison, Correction, Critic,
    Data, DataPath, Device, Dpo, DpoLoss, Dtype, Dynamic, Entropy, Estimator, Eval, Example, Examples,
    GaeSteps, Gaps, Gate, Grant, Judge, Kl, KlEstimator, KlGradient, Limits, Log, Lora, LoraTarget, Loss,
    Measure, Model, Old, OnFailure, Over, Overlong, Placement, PluginUse, Preset, Profile, PromptFormat,
    Ratio, Recipe, Reduction, Region, Rejection, RestOfTokens, Reward, Rollout, Run, Scale, Schedule, Sft,
    Singleton, Slice, Span, Surrogate, Task, Teacher, TeacherDivergence, TeacherLoss, TopTokens, Train,
    Turns, Variance, WeightLevel, Whiten,
};
pub use starter::{Starter, starter, to_fill_in};
