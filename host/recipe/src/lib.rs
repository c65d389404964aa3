//! The typed recipe: parse, defaults, validation, and the rows of its data; knows nothing of tensors or wasm.
//!
//! A recipe is one TOML file. [`Recipe::load`] reads it, checks every key against the types of
//! [`section`] (whose JSON Schema is [`schema()`]), then against the rules that no single type can
//! express, and reports everything that is wrong at once. [`data`] opens the files it names.

pub mod section;

mod quantity;

pub use quantity::{ByteSize, QuantityError, Time};
pub use section::{
    Algorithm, Columns, Correction, CorrectionKind, Data, DataPath, Device, Dtype, Eval, Example, Examples,
    Kl, KlEstimator, Limits, Log, Lora, LoraTarget, Model, OnFailure, PluginUse, Preset, Profile,
    PromptFormat, Recipe, Reduction, Reward, Rollout, Run, Scale, Schedule, Slice, Train,
};
