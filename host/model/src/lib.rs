//! Decoder families on libtorch, weights, tokenizer, chat template; knows nothing of RL.

mod attention;
mod config;
mod decoder;
mod error;
mod packed;
mod rope;
mod template;

pub use config::{Config, Family, SUPPORTED};
pub use decoder::{Decoder, Lora, Weights};
pub use error::ModelError;
pub use packed::{Packed, Tree};
pub use rope::{Rope, RopeScaling};
pub use template::TemplateError;
