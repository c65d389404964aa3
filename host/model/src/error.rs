//! What can go wrong with a model, in words that name the file, what was found and what helps.

use crate::template::TemplateError;
use std::path::{Path, PathBuf};

/// Why a model cannot be loaded, saved or placed on a device.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A file or folder that the model needs is not there.
    #[error("`{}` does not exist{help}", path.display())]
    Missing {
        /// What was looked for.
        path: PathBuf,
        /// What would help, with its leading punctuation; may be empty.
        help: String,
    },
    /// Reading or writing failed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// `read`, `write`, …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A JSON file is malformed, or a field has an unusable value.
    #[error("`{origin}` is not a usable model configuration: {reason}")]
    Config {
        /// The file.
        origin: String,
        /// What is wrong, with the field's name.
        reason: String,
    },
    /// The architecture is not one of the families here.
    #[error("`{origin}` has the architecture `{found}`; supported are {}", crate::config::SUPPORTED)]
    Architecture {
        /// The file.
        origin: String,
        /// The architecture found there.
        found: String,
    },
    /// A weights file is damaged, or holds something that cannot be read.
    #[error("`{}` cannot be read as {format}: {reason}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// `safetensors` or `GGUF`.
        format: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The configuration asks for a tensor that the weights do not have.
    #[error("the weights have no tensor `{name}`, which the configuration asks for")]
    MissingTensor {
        /// Its Hugging Face name.
        name: String,
    },
    /// A tensor has another shape than the configuration says.
    #[error("tensor `{name}` has the shape {found:?}; the configuration says {expected:?}")]
    Shape {
        /// Its Hugging Face name.
        name: String,
        /// By the configuration.
        expected: Vec<i64>,
        /// In the weights.
        found: Vec<i64>,
    },
    /// A LoRA adapter names a module that this model does not have.
    #[error("a LoRA adapter is for `{name}`, which is no linear module of this model")]
    LoraModule {
        /// The module's Hugging Face name.
        name: String,
    },
    /// Token rows and the description of their nodes disagree.
    #[error("packed tokens: {0}")]
    Packed(String),
    /// The tokenizer cannot be built or used.
    #[error("tokenizer of `{origin}`: {reason}")]
    Tokenizer {
        /// The file.
        origin: String,
        /// What is wrong.
        reason: String,
    },
    /// The chat template is malformed.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A model could not be fetched from the hub.
    #[error("cannot fetch `hf://{model}` from {endpoint}: {reason}")]
    Hub {
        /// `org/name[@revision]`.
        model: String,
        /// The hub's address.
        endpoint: String,
        /// What is wrong and what helps.
        reason: String,
    },
    /// The device is unknown or absent.
    #[error("device `{asked}`: {reason}")]
    Device {
        /// As the user wrote it.
        asked: String,
        /// What is wrong and what helps.
        reason: String,
    },
    /// The CPU's own kernels cannot start or take something.
    #[error("decoder on the CPU: {0}")]
    Kernels(String),
    /// libtorch refused an operation.
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
}

impl ModelError {
    /// An I/O failure, told apart from a file that is simply absent.
    pub(crate) fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        if source.kind() == std::io::ErrorKind::NotFound && action == "read" {
            return ModelError::Missing { path: path.to_owned(), help: String::new() };
        }
        ModelError::Io { action, path: path.to_owned(), source }
    }

    /// An unusable field of a configuration.
    pub(crate) fn config(origin: impl Into<String>, reason: impl Into<String>) -> Self {
        ModelError::Config { origin: origin.into(), reason: reason.into() }
    }
}
