//! How much memory a run will take, from the model's numbers and the recipe.

use crate::section::Device;
use crate::{Recipe, Task};

/// The numbers of a decoder that memory depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelNumbers {
    /// Weights in all.
    pub parameters: u64,
    /// Decoder blocks.
    pub layers: u64,
    /// Width of the residual stream.
    pub hidden_size: u64,
    /// Width of the feed-forward layer.
    pub intermediate_size: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// Tokens of the vocabulary.
    pub vocab_size: u64,
    /// Weights that adapters of the recipe's rank and targets add; 0 without LoRA.
    pub adapter_parameters: u64,
    /// Bytes of a number in computation: 2 for bf16, 4 for fp32.
    pub compute_bytes: u64,
}

/// Bytes by part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// Part and bytes, in the order of a run's start.
    pub parts: Vec<(&'static str, u64)>,
}

impl MemoryEstimate {
    /// Sum of the parts.
    pub fn total(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Rows of logits that exist at once: log-probabilities are computed in chunks of tokens.
const LOGIT_ROWS: u64 = 512;

/// The memory of a run: what the trainer and the rollout engine hold at their peak.
///
/// An estimate from above for the parts it names; the allocator's overhead and the program itself come on top.
pub fn estimate(model: &ModelNumbers, recipe: &Recipe) -> MemoryEstimate {
    let bytes = model.compute_bytes;
    let trained = if recipe.model.lora.is_some() { model.adapter_parameters } else { model.parameters };
    // In fp32 the computing weights are the master weights.
    let master = if bytes == 4 { 0 } else { 4 * trained };
    let tokens = recipe.train.micro_batch_tokens as u64;
    let per_layer_full = tokens
        * bytes
        * (8 * model.hidden_size
            + 4 * model.intermediate_size
            + (2 * model.heads + 2 * model.kv_heads) * model.head_dim);
    // The residual stream, in fp32.
    let per_layer_kept = tokens * 4 * model.hidden_size;
    // On a CPU forward has weights of its own, packed for the kernels, and layers are computed again in backward.
    let on_cpu = !matches!(recipe.model.device, Device::Cuda(_));
    let activations = if recipe.train.gradient_checkpointing || on_cpu {
        per_layer_full + model.layers * per_layer_kept
    } else {
        model.layers * per_layer_full
    };
    // Logits, their softmax and its gradient, in fp32.
    let logits = LOGIT_ROWS.min(tokens) * model.vocab_size * 4 * 3;
    // Adapters are merged for the engine; the base model is the reference of an adapter, on a CPU packed once more.
    let reference = match (recipe.algorithm.kl.coefficient > 0.0, &recipe.model.lora) {
        (true, lora) if on_cpu || lora.is_none() => bytes * model.parameters,
        _ => 0,
    };
    let samples = recipe.task == Task::Rl;
    let if_sampling = |bytes: u64| if samples { bytes } else { 0 };
    // The critic is trained as a whole, whatever adapters the policy has.
    let critic = if recipe.critic.is_some() {
        model.parameters * (bytes * if on_cpu { 2 } else { 1 } + if bytes == 4 { 0 } else { 4 } + 8 + 4)
    } else {
        0
    };
    let parts = [
        ("weights", bytes * (model.parameters + if recipe.model.lora.is_some() { trained } else { 0 })),
        ("master weights", master),
        ("optimiser state", 8 * trained),
        ("gradients", 4 * trained),
        ("reference model", reference),
        ("activations", activations),
        ("logits", logits),
        ("forward weights", if on_cpu { bytes * model.parameters } else { 0 }),
        ("critic", critic),
        ("rollout weights", if_sampling(bytes * model.parameters)),
        ("keys and values", if_sampling(kv_bytes(model, recipe))),
    ];
    MemoryEstimate { parts: parts.into_iter().filter(|(_, bytes)| *bytes > 0).collect() }
}

/// Keys and values of a step's sequences, as far as the budget lets them run at once.
fn kv_bytes(model: &ModelNumbers, recipe: &Recipe) -> u64 {
    let (rollout, data) = (&recipe.rollout, &recipe.data);
    let sequences = (rollout.prompts_per_step * rollout.samples_per_prompt).min(rollout.max_running) as u64;
    let longest = (data.max_prompt_tokens + rollout.max_tokens) as u64;
    (sequences * longest * kv_bytes_per_token(model)).min(rollout.kv_budget.0)
}

/// Bytes of one token's keys and values over all layers.
pub fn kv_bytes_per_token(model: &ModelNumbers) -> u64 {
    2 * model.layers * model.kv_heads * model.head_dim * model.compute_bytes
}
