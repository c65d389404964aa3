//! The recipe's words in the words of the crates that do the work.

use tch::{Device, Kind};
use whet_recipe::{Critic, Dtype, Recipe, Task};
use whet_rollout::{EngineOptions, Sampling};
use whet_trainer::{AdamW, Decay, LoraOptions, Schedule, TrainOptions};

/// Models below this many weights compute in fp32 where the recipe leaves it open: they are too small to
/// gain from bf16, and are what exactness is tested on.
const TINY: usize = 20_000_000;

/// The precision that the recipe asks for; `weights` is the number of the model's weights.
pub fn kind(dtype: Dtype, weights: usize) -> Kind {
    match dtype {
        Dtype::Fp32 => Kind::Float,
        Dtype::Bf16 => Kind::BFloat16,
        Dtype::Auto if weights < TINY => Kind::Float,
        Dtype::Auto => Kind::BFloat16,
    }
}

/// A precision as recipes write it.
pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::BFloat16 => "bf16",
        Kind::Float => "fp32",
        _ => "other",
    }
}

/// An engine on every core with memory for about a million tokens of a small model, for what no recipe
/// says.
pub fn engine() -> EngineOptions {
    EngineOptions {
        kind: Kind::Float,
        kv_budget_bytes: 1 << 30,
        max_running: 256,
        threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
    }
}

/// How training samples are drawn.
pub fn sampling(recipe: &Recipe) -> Sampling {
    let rollout = &recipe.rollout;
    Sampling {
        temperature: rollout.temperature,
        top_p: rollout.top_p,
        top_k: rollout.top_k,
        min_p: rollout.min_p,
        max_tokens: rollout.max_tokens,
        stop: rollout.stop.clone(),
        stop_ids: rollout.stop_ids.clone(),
        ignore_eos: false,
    }
}

/// How answers are drawn when the model is measured: stops as in training, all else by `[eval]`.
pub fn evaluation_sampling(recipe: &Recipe) -> Sampling {
    let eval = recipe.eval.clone().unwrap_or_default();
    let max_tokens = if recipe.eval.is_some() { eval.max_tokens } else { recipe.rollout.max_tokens };
    Sampling {
        temperature: eval.temperature,
        top_p: 1.0,
        top_k: 0,
        min_p: 0.0,
        max_tokens,
        ..sampling(recipe)
    }
}

/// How the greedy answer that a baseline needs is drawn.
pub fn greedy(recipe: &Recipe) -> Sampling {
    Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, ..sampling(recipe) }
}

/// The trainer.
pub fn train(recipe: &Recipe, kind: Kind, device: Device) -> TrainOptions {
    let train = &recipe.train;
    let per_step = match recipe.task {
        Task::Rl => (recipe.algorithm.epochs * recipe.algorithm.minibatches) as u64,
        Task::Sft | Task::Dpo | Task::RewardModel => 1,
    };
    let updates = train.steps * per_step;
    TrainOptions {
        kind,
        device,
        lora: recipe.model.lora.as_ref().map(|lora| LoraOptions {
            rank: lora.rank as usize,
            alpha: lora.alpha,
            modules: lora.targets.iter().map(|t| t.as_str().to_owned()).collect(),
            seed: recipe.seed,
        }),
        adam: AdamW {
            lr: train.learning_rate,
            beta1: train.betas[0],
            beta2: train.betas[1],
            eps: train.eps,
            weight_decay: train.weight_decay,
        },
        schedule: schedule(train.schedule, train.warmup, updates),
        clip_norm: (train.grad_clip > 0.0).then_some(train.grad_clip),
        micro_batch_tokens: train.micro_batch_tokens,
        gradient_checkpointing: train.gradient_checkpointing,
        reference: recipe.algorithm.kl.coefficient > 0.0,
    }
}

/// The critic, which has the trainer's schedule over its own updates.
pub fn critic(recipe: &Recipe, critic: &Critic, kind: Kind, device: Device) -> TrainOptions {
    let updates = recipe.train.steps * (critic.epochs * critic.minibatches) as u64;
    let trainer = train(recipe, kind, device);
    TrainOptions {
        lora: None,
        adam: AdamW { lr: critic.learning_rate, weight_decay: critic.weight_decay, ..trainer.adam },
        schedule: schedule(recipe.train.schedule, critic.warmup, updates),
        clip_norm: (critic.grad_clip > 0.0).then_some(critic.grad_clip),
        reference: false,
        ..trainer
    }
}

fn schedule(schedule: whet_recipe::Schedule, warmup: u64, updates: u64) -> Schedule {
    let decay = match schedule {
        whet_recipe::Schedule::Constant => Decay::Constant,
        whet_recipe::Schedule::Linear => Decay::Linear { steps: updates, floor: 0.0 },
        whet_recipe::Schedule::Cosine => Decay::Cosine { steps: updates, floor: 0.0 },
    };
    Schedule { warmup, decay }
}
