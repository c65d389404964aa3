//! Advantages, reward shaping and corrections on plain slices; knows nothing of tensors, async or wasm.
