//! Tokens per second of one GRPO update, and where its time goes.
//!
//! ```text
//! cargo run --release -p whet-trainer --example train_speed -- MODEL [bf16|f32] [micro-batch tokens] [checkpointing] [lora] [few-shot]
//! ```
//! The batch is 8 prompts of 47 tokens, 8 responses of 32 tokens each; with `few-shot`, 8 prompts of 165
//! tokens that share 140, and 8 responses of 4 tokens.

use std::time::Instant;
use tch::{Device, Kind};
use whet_trainer::{LoraOptions, LossOptions, TrainOptions, TrainSample, Trainer};
use whet_trajectory::{GroupId, SampleId};

const PROMPTS: usize = 8;
const SAMPLES: usize = 8;

/// Tokens that all prompts begin with, tokens of a prompt, and tokens of a response.
struct Shape {
    common: usize,
    prompt: usize,
    response: usize,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let model = arguments.first().ok_or("say which model: a folder, a .gguf or hf://org/name")?;
    let has = |word: &str| arguments.iter().any(|a| a == word);
    let kind = if has("f32") { Kind::Float } else { Kind::BFloat16 };
    let budget = arguments.iter().find_map(|a| a.parse().ok()).unwrap_or(1024);
    let options = TrainOptions {
        kind,
        micro_batch_tokens: budget,
        gradient_checkpointing: has("checkpointing"),
        lora: has("lora").then(LoraOptions::default),
        ..TrainOptions::default()
    };
    let checkpoint = whet_model::load(model, kind, Device::Cpu)?;
    let vocabulary = checkpoint.config.vocab_size as u32;
    let mut trainer = Trainer::new(&checkpoint.config, checkpoint.weights, options)?;
    println!(
        "{} trained values, {kind:?}, {budget} rows per micro-batch, {} threads",
        trainer.trained_parameters(),
        tch::get_num_threads()
    );

    let plain = Shape { common: 0, prompt: 47, response: 32 };
    let few_shot = Shape { common: 140, prompt: 165, response: 4 };
    let samples = batch(vocabulary, if has("few-shot") { few_shot } else { plain });
    let tokens: usize = samples.iter().map(|s| s.tokens.len()).sum();
    for round in 0..3 {
        let begin = Instant::now();
        let loss = trainer.forward_backward(&samples, &LossOptions::default())?;
        let step = trainer.optimiser_step();
        let total = begin.elapsed().as_secs_f64();
        let s = loss.seconds;
        println!(
            "{round}: {total:.2} s, {:.0} tokens/s ({} tokens in {} rows, {} micro-batches): forward {:.2}, head {:.2}, \
             backward {:.2}, optimiser {:.2}; peak memory {:.2} GB; gradient norm {:.3}",
            tokens as f64 / total,
            tokens,
            loss.rows,
            loss.micro_batches,
            s.forward,
            s.head,
            s.backward,
            step.seconds,
            peak_memory(),
            step.grad_norm,
        );
    }
    Ok(())
}

/// Prompts and responses of arbitrary words.
fn batch(vocabulary: u32, shape: Shape) -> Vec<TrainSample> {
    let word = |n: usize| (n as u32).wrapping_mul(2_654_435_761) % vocabulary;
    let make = |number: usize| {
        let group = number / SAMPLES;
        let prompt = (0..shape.prompt).map(|t| word(if t < shape.common { t } else { group * 1000 + t }));
        let response = (0..shape.response).map(|t| word(100_000 + number * 1000 + t));
        let tokens: Vec<u32> = prompt.chain(response).collect();
        TrainSample {
            id: SampleId(number.to_string()),
            group: GroupId(group.to_string()),
            prompt_len: shape.prompt,
            loss_mask: (0..tokens.len()).map(|t| t >= shape.prompt).collect(),
            rollout_logprobs: vec![-10.0; tokens.len()],
            advantages: vec![if number.is_multiple_of(2) { 1.0 } else { -1.0 }; tokens.len()],
            tokens,
            old_logprobs: None,
            reference_logprobs: None,
        }
    };
    (0..PROMPTS * SAMPLES).map(make).collect()
}

/// Greatest resident memory of this process so far, in GB; 0 where the system does not tell.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) / 1e6
}
