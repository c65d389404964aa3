//! Decoder families on libtorch, weights, tokenizer, chat template; knows nothing of RL.

mod attention;
mod checkpoint;
mod config;
pub mod cpu;
mod decoder;
mod dequantise;
mod device;
mod error;
mod gguf;
mod gguf_tokenizer;
mod hub;
mod packed;
mod rope;
mod scorer;
mod template;
mod tokenizer;
mod weights;

pub use checkpoint::{Checkpoint, Files, load, load_scored, save, save_scored};
pub use config::{Config, Family, SUPPORTED};
pub use decoder::{Decoder, Lora, Weights};
pub use dequantise::GgmlType;
pub use device::device;
pub use error::ModelError;
pub use packed::{Node, Packed};
pub use rope::{Rope, RopeScaling};
pub use template::{ChatTemplate, TemplateError};
pub use tokenizer::{Stream, Tokenizer};
pub use weights::{read as read_weights, write as write_weights, write_tensors};
