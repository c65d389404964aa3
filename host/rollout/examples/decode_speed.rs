//! Speed of the embedded engine, where its time goes, and how far its log-probabilities are from the decoder's.
//!
//! `decode_speed MODEL [SEQUENCES] [PROMPT] [NEW] [bf16|f32] [THREADS] [shared]`: random prompts of `PROMPT` tokens, `NEW` sampled ones each;
//! with `shared`, all sequences have the same prompt.

use std::time::Instant;
use tch::{Device, Kind};
use whet_model::{Checkpoint, Decoder, Packed};
use whet_rollout::{EmbeddedEngine, Engine, EngineOptions, Profile, Request, Sampling};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: usize| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let Some(model) = args.first() else {
        return Err("usage: decode_speed MODEL [SEQUENCES] [PROMPT] [NEW] [KIND] [THREADS]".into());
    };
    let (sequences, prompt, new) = (number(1, 64), number(2, 64), number(3, 128));
    let kind = if args.get(4).is_some_and(|k| k == "f32") { Kind::Float } else { Kind::BFloat16 };
    let threads = number(5, std::thread::available_parallelism().map_or(1, |n| n.get()));
    let shared = args.get(6).is_some_and(|a| a == "shared");

    let checkpoint = whet_model::load(model, kind, Device::Cpu)?;
    let options = EngineOptions { kind, kv_budget_bytes: 4 << 30, max_running: 256, threads };
    let engine =
        EmbeddedEngine::start(&checkpoint.config, &checkpoint.weights, &checkpoint.tokenizer, options)?;
    let vocabulary = checkpoint.config.vocab_size as u64;

    let mut before = Profile::default();
    for round in 0..3u64 {
        let request = |i: usize| {
            let salt = if shared { round } else { round * 1000 + i as u64 };
            let token =
                |p: usize| ((salt * 7919 + p as u64 * 104_729 + 1) * 2_654_435_761 % vocabulary) as u32;
            Request {
                id: format!("{round}/{i}").as_str().into(),
                group: format!("{salt}").as_str().into(),
                prompt: (0..prompt).map(token).collect(),
                sampling: Sampling { max_tokens: new, ignore_eos: true, ..Sampling::default() },
                seed: i as u64,
            }
        };
        let requests: Vec<Request> = (0..sequences).map(request).collect();
        let started = Instant::now();
        let results = engine.submit(requests);
        let mut tokens = 0;
        for completion in results {
            tokens += completion?.tokens.len();
        }
        let wall = started.elapsed().as_secs_f64();
        let now = engine.profile()?;
        let ms = |f: fn(&Profile) -> std::time::Duration| (f(&now) - f(&before)).as_secs_f64() * 1e3;
        println!(
            "{sequences} x ({prompt} + {new}) {kind:?}, {threads} threads: {:.0} tok/s in {wall:.2} s; {:.1} ms a step without prompts; \
             prompts {:.0} ms; gemm {:.0}, attention {:.0}, sampler {:.0}, other {:.0} ms",
            tokens as f64 / wall,
            (wall * 1e3 - ms(|p| p.prefill)) / (now.steps - before.steps) as f64,
            ms(|p| p.prefill),
            ms(|p| p.gemm),
            ms(|p| p.attention),
            ms(|p| p.sampler),
            ms(|p| p.other),
        );
        before = now;
    }
    compare(&checkpoint, &engine)
}

/// Samples from ordinary text and scores the same tokens by the decoder, all at once.
fn compare(checkpoint: &Checkpoint, engine: &EmbeddedEngine) -> Result<(), Box<dyn std::error::Error>> {
    const TEXTS: [&str; 4] = [
        "The history of the railway begins long before the steam engine. In the mines of the sixteenth century, carts ran",
        "To bake a simple loaf of bread you need flour, water, salt and yeast. First, mix the flour and the salt in",
        "Question: A farmer has 17 sheep and buys 5 more every month. How many sheep are there after three months?\nAnswer:",
        "Photosynthesis is the process by which plants turn light into chemical energy. It takes place in",
    ];
    let mut prompts = Vec::new();
    for text in TEXTS {
        prompts.push(checkpoint.tokenizer.encode(text, false)?);
    }
    let request = |i: usize| Request {
        id: i.to_string().as_str().into(),
        group: (i % TEXTS.len()).to_string().as_str().into(),
        prompt: prompts[i % TEXTS.len()].as_slice().into(),
        sampling: Sampling { max_tokens: 64, ignore_eos: true, ..Sampling::default() },
        seed: i as u64,
    };
    let _no_grad = tch::no_grad_guard();
    let decoder = Decoder::new(&checkpoint.config, &checkpoint.weights)?;
    let mut gaps = Vec::new();
    for completion in engine.submit((0..16).map(request).collect()) {
        let done = completion?;
        let prompt = &prompts[done.id.0.parse::<usize>()? % TEXTS.len()];
        let ids = [prompt, &done.tokens[..]].concat();
        let hidden = decoder.hidden(&Packed::sequences(&[&ids], Device::Cpu)?);
        let logprobs = decoder.logits(&hidden).log_softmax(-1, Kind::Float);
        for (i, sampled) in done.logprobs.iter().enumerate() {
            let at = (prompt.len() + i) as i64;
            let by_decoder = logprobs.double_value(&[at - 1, i64::from(ids[at as usize])]);
            gaps.push((by_decoder - f64::from(*sampled)).abs());
        }
    }
    let (sum, worst) = gaps.iter().fold((0.0, 0f64), |(sum, worst), g| (sum + g, worst.max(*g)));
    println!(
        "log-probs of {} tokens against the decoder's: mean {:.2e}, worst {worst:.2e}",
        gaps.len(),
        sum / gaps.len() as f64
    );
    Ok(())
}
