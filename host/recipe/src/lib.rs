//! The typed recipe: parse, defaults, validation, data rows; knows nothing of tensors or wasm.
