//! `whet generate`.

use crate::words::{out, plain};
use anyhow::Context;
use clap::Args;
use serde_json::{Map, json};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use whet_controller::prompt::PromptStyle;
use whet_controller::saved::{is_run, load_saved};
use whet_controller::step::rollout;
use whet_controller::{options, setup};
use whet_recipe::{Dtype, PromptFormat, Task};
use whet_rollout::{EmbeddedEngine, Engine, EngineOptions, Request, Sampling};
use whet_trajectory::{GroupId, Message, Role};

/// Let a model answer.
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  whet generate hf://HuggingFaceTB/SmolLM2-135M-Instruct \"What is 2 + 2?\"\n  whet generate runs/sums \"What is 2 + 2?\" --temperature 0\n  echo \"Once upon a time\" | whet generate model.gguf --raw --max-tokens 100"
)]
pub struct Generate {
    /// A folder, a .gguf file, hf://organisation/name, or a run directory
    model: String,
    /// What to ask; standard input unless given
    prompts: Vec<String>,
    /// Continue the text as it is, without the chat template
    #[arg(long)]
    raw: bool,
    /// A system message
    #[arg(long, conflicts_with = "raw")]
    system: Option<String>,
    /// Longest answer, in tokens
    #[arg(long, default_value_t = 256)]
    max_tokens: usize,
    /// Divides the logits; 0 always takes the likeliest token
    #[arg(long, default_value_t = 0.7)]
    temperature: f64,
    /// Keep the likeliest tokens whose probabilities reach this sum
    #[arg(long, default_value_t = 1.0)]
    top_p: f64,
    /// Keep this many of the likeliest tokens; 0 keeps all
    #[arg(long, default_value_t = 0)]
    top_k: u32,
    /// Keep tokens at least this likely relative to the likeliest
    #[arg(long, default_value_t = 0.0)]
    min_p: f64,
    /// End the answer before this text; may be repeated
    #[arg(long)]
    stop: Vec<String>,
    /// The same seed gives the same answer
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Answers to each prompt
    #[arg(long, short = 'n', default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// auto, cpu, cuda or cuda:INDEX
    #[arg(long, default_value = "auto")]
    device: String,
    /// One JSON object per answer
    #[arg(long)]
    json: bool,
}

/// Answers every prompt.
pub fn run(arguments: Generate) -> anyhow::Result<ExitCode> {
    let mut prompts = arguments.prompts.clone();
    if prompts.is_empty() {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read the prompt from standard input")?;
        prompts.push(text.trim_end_matches('\n').to_owned());
    }
    if prompts.iter().any(String::is_empty) {
        return Err(plain("a prompt is empty", "name it after the model, or give it on standard input"));
    }
    let sampling = Sampling {
        temperature: arguments.temperature,
        top_p: arguments.top_p,
        top_k: arguments.top_k,
        min_p: arguments.min_p,
        max_tokens: arguments.max_tokens,
        stop: arguments.stop.clone(),
        ..Sampling::default()
    };
    // Known before the model is loaded, which takes a while.
    if let Some(flaw) = sampling.flaw() {
        return Err(plain(flaw, "`whet generate --help` describes each option"));
    }
    let path = Path::new(&arguments.model);
    let model = if is_run(path) {
        let saved = load_saved(path)?;
        if saved.recipe.task == Task::RewardModel {
            return Err(plain(
                "a reward model scores texts and writes none",
                "name a run of another task, or a model",
            ));
        }
        saved.model
    } else {
        setup::load_source(&arguments.model, Dtype::Auto, whet_model::device(&arguments.device)?)?
    };
    let checkpoint = &model.checkpoint;
    let style = PromptStyle {
        format: if arguments.raw { PromptFormat::Raw } else { PromptFormat::Chat },
        kwargs: &Map::new(),
        tokenizer: &checkpoint.tokenizer,
        template: checkpoint.template.as_ref(),
        model: &arguments.model,
    };
    let mut requests = Vec::new();
    for (number, prompt) in prompts.iter().enumerate() {
        let mut messages: Vec<Message> =
            arguments.system.iter().map(|system| Message::text(Role::System, system)).collect();
        messages.push(Message::text(Role::User, prompt));
        let ids: std::sync::Arc<[u32]> = style.tokens(&messages, &format!("question {}", number + 1))?.into();
        let group = GroupId(format!("prompt{number}"));
        requests.extend((0..arguments.samples as usize).map(|k| Request {
            id: rollout::sample_id(&group, k),
            group: group.clone(),
            prompt: ids.clone(),
            sampling: sampling.clone(),
            seed: whet_controller::seed::evaluation(arguments.seed, number, k),
        }));
    }
    let order: Vec<_> = requests.iter().map(|r| r.id.clone()).collect();
    let engine = EmbeddedEngine::start(
        &checkpoint.config,
        &checkpoint.weights,
        &checkpoint.tokenizer,
        EngineOptions { kind: model.kind, ..options::engine() },
    )?;
    let mut completions = Vec::with_capacity(order.len());
    for completion in engine.submit(requests) {
        completions.push(completion?);
    }
    completions.sort_by_key(|c| order.iter().position(|id| *id == c.id));
    for (index, completion) in completions.iter().enumerate() {
        let prompt = &prompts[index / arguments.samples as usize];
        if arguments.json {
            out(json!({
                "prompt": prompt,
                "response": completion.text,
                "finish": completion.finish,
                "tokens": completion.tokens,
                "logprobs": completion.logprobs,
            }))?;
        } else if completions.len() == 1 {
            out(&completion.text)?;
        } else {
            out(format!("> {prompt}\n{}\n", completion.text))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
