//! What was asked, sampled and scored: messages, samples, groups, outcomes, ids. Plain data; knows nothing of tensors, wasm or sampling.
