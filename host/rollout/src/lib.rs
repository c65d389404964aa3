//! Sampling: the embedded engine with continuous batching; knows nothing of losses.
//!
//! Token ids go in, token ids come out with log-probabilities, weight versions and the reason they
//! end (`request`). The engine runs on a thread of its own (`engine`), which decides who runs
//! (`scheduler`, over the prompts as a tree, `prefixes`) and repeats decode steps (`serve`) over one of two ways to compute
//! (`backend`). Choosing a token is `sampler`'s.

mod backend;
mod engine;
mod packed;
mod prefixes;
mod random;
mod request;
mod sampler;
mod scheduler;
mod serve;
mod stop;
mod tensors;

pub use backend::Profile;
pub use engine::{EmbeddedEngine, EngineOptions};
pub use request::{Completion, Engine, EngineError, Request, Sampling};
