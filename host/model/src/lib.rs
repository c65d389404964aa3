//! Decoder families on libtorch, weights, tokenizer, chat template; knows nothing of RL.
