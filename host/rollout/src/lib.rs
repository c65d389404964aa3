//! Sampling: the embedded engine with continuous batching; knows nothing of losses.
