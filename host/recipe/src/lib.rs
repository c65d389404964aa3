//! The typed recipe: parse, defaults, validation, and the rows of its data; knows nothing of tensors or wasm.
//!
//! A recipe is one TOML file. [`Recipe::load`] reads it, checks every key against the types of
//! [`section`] (whose JSON Schema is [`schema()`]), then against the rules that no single type can
//! express, and reports everything that is wrong at once. [`data`] opens the files it names.

pub mod data;
pub mod section;

mod diagnostic;
mod document;
mod error;
mod load;
mod memory;
mod quantity;
mod rules;
mod schema;
mod shape;
mod starter;

pub use error::{Place, Problem, RecipeError, RecipeErrors};
pub use memory::{MemoryEstimate, ModelNumbers, estimate, kv_bytes_per_token};
pub use quantity::{ByteSize, QuantityError, Time};
pub use schema::schema;
pub use section::{
    Algorithm, Columns, Correction, CorrectionKind, Data, DataPath, Device, Dtype, Dynamic, Eval, Example,
    Examples, Grant, Kl, KlEstimator, Limits, Log, Lora, LoraTarget, Model, OnFailure, PluginUse, Preset,
    Profile, PromptFormat, Recipe, Reduction, Reward, Rollout, Run, Scale, Schedule, Slice, Train,
};
pub use starter::{Starter, starter};
