//! The rollout engine on tiny models: exactness against the decoder, independence of the batch,
//! stopping, cancelling, new weights, small budgets.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tch::{Device, Kind, Tensor};
use whet_model::{Checkpoint, Decoder, Packed, Weights};
use whet_rollout::{Completion, EmbeddedEngine, Engine, EngineError, EngineOptions, Request, Sampling};
use whet_trainer::{AdamW, LoraOptions, LossOptions, TrainOptions, TrainSample, Trainer, Which};
use whet_trajectory::{FinishReason, WeightVersion};

const MODELS: [&str; 4] = ["llama", "qwen2", "qwen3_tied", "qwen3_untied"];
const PLENTY: usize = 64 << 20;

fn folder(model: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(model)
}

fn load(model: &str, kind: Kind) -> Checkpoint {
    tch::set_num_threads(1);
    whet_model::load(folder(model).to_str().unwrap(), kind, Device::Cpu).unwrap()
}

fn expected(model: &str) -> Value {
    serde_json::from_slice(&std::fs::read(folder(model).join("expected.json")).unwrap()).unwrap()
}

fn engine(checkpoint: &Checkpoint, kind: Kind, kv_budget_bytes: usize) -> EmbeddedEngine {
    let options = EngineOptions { kind, kv_budget_bytes, max_running: 64, threads: 2 };
    EmbeddedEngine::start(&checkpoint.config, &checkpoint.weights, &checkpoint.tokenizer, options).unwrap()
}

fn free() -> Sampling {
    Sampling { max_tokens: 24, ignore_eos: true, ..Sampling::default() }
}

/// A prompt of `n` tokens that depends on `salt`.
fn prompt(salt: usize, n: usize) -> Arc<[u32]> {
    (0..n).map(|i| ((salt * 7919 + i * 104_729 + 17) % 1000) as u32).collect()
}

fn request(id: &str, prompt: &Arc<[u32]>, sampling: Sampling, seed: u64) -> Request {
    Request { id: id.into(), group: id.into(), prompt: prompt.clone(), sampling, seed }
}

/// Results in the order of the requests.
fn sample(engine: &EmbeddedEngine, requests: Vec<Request>) -> Vec<Completion> {
    let ids: Vec<_> = requests.iter().map(|r| r.id.clone()).collect();
    let mut done: Vec<Completion> = engine.submit(requests).into_iter().map(Result::unwrap).collect();
    assert_eq!(done.len(), ids.len());
    done.sort_by_key(|c| ids.iter().position(|id| *id == c.id));
    done
}

fn one(engine: &EmbeddedEngine, prompt: &Arc<[u32]>, sampling: Sampling, seed: u64) -> Completion {
    sample(engine, vec![request("one", prompt, sampling, seed)]).remove(0)
}

fn join(prompt: &[u32], completion: &Completion) -> Vec<u32> {
    [prompt, &completion.tokens].concat()
}

/// Log-probabilities of `ids[prompt_len..]` by the decoder, all tokens at once.
fn by_decoder(config: &whet_model::Config, weights: &Weights, ids: &[u32], prompt_len: usize) -> Vec<f64> {
    let _no_grad = tch::no_grad_guard();
    let decoder = Decoder::new(config, weights).unwrap();
    let packed = Packed::sequences(&[ids], Device::Cpu).unwrap();
    let logits = decoder.logits(&decoder.hidden(&packed)).to_kind(Kind::Double);
    let all = logits.log_softmax(-1, Kind::Double);
    (prompt_len..ids.len()).map(|i| all.double_value(&[i as i64 - 1, i64::from(ids[i])])).collect()
}

fn differences(a: &[f32], b: &[f64]) -> (f64, f64) {
    assert_eq!(a.len(), b.len());
    let gaps: Vec<f64> = a.iter().zip(b).map(|(a, b)| (f64::from(*a) - b).abs()).collect();
    (gaps.iter().sum::<f64>() / gaps.len() as f64, gaps.iter().copied().fold(0.0, f64::max))
}

#[test]
fn sampled_log_probs_equal_the_engines_own_to_the_bit_and_the_decoders_to_1e_4() {
    for model in MODELS {
        let checkpoint = load(model, Kind::Float);
        let engine = engine(&checkpoint, Kind::Float, PLENTY);
        for length in [1, 2, 16, 17, 70] {
            let prompt = prompt(length, length);
            let done = one(&engine, &prompt, free(), 5);
            let ids = join(&prompt, &done);
            assert_eq!(engine.logprobs(&ids, length).unwrap(), done.logprobs, "{model}");
            let (_, worst) = differences(
                &done.logprobs,
                &by_decoder(&checkpoint.config, &checkpoint.weights, &ids, length),
            );
            assert!(worst <= 1e-4, "{model}, prompt of {length}: {worst}");
        }
    }
}

#[test]
fn in_bf16_log_probs_stay_near_the_decoders() {
    for model in MODELS {
        let checkpoint = load(model, Kind::BFloat16);
        let engine = engine(&checkpoint, Kind::BFloat16, PLENTY);
        let prompt = prompt(3, 40);
        let done = one(&engine, &prompt, Sampling { max_tokens: 100, ..free() }, 5);
        let ids = join(&prompt, &done);
        assert_eq!(engine.logprobs(&ids, 40).unwrap(), done.logprobs, "{model}");
        let (mean, worst) =
            differences(&done.logprobs, &by_decoder(&checkpoint.config, &checkpoint.weights, &ids, 40));
        assert!(mean <= 0.05 && worst <= 0.7, "{model}: {mean} {worst}");
    }
}

/// Largest difference of what the trainer says of sampled tokens and what they were sampled with.
fn mismatch(
    engine: &EmbeddedEngine,
    trainer: &Trainer,
    prompts: &[Arc<[u32]>],
    temperature: f64,
    seed: u64,
) -> f64 {
    let requests = prompts
        .iter()
        .enumerate()
        .map(|(i, prompt)| {
            let sampling = Sampling { max_tokens: 3 + 7 * (i % 5), temperature, ..free() };
            request(&i.to_string(), prompt, sampling, seed + i as u64)
        })
        .collect();
    let done = sample(engine, requests);
    let samples: Vec<TrainSample> = done
        .iter()
        .zip(prompts)
        .map(|(done, prompt)| {
            let tokens = join(prompt, done);
            let mask = (0..tokens.len()).map(|t| t >= prompt.len()).collect();
            TrainSample::given(done.id.clone(), "group".into(), tokens, mask)
        })
        .collect();
    let told = trainer.logprobs(&samples, Which::Policy, temperature).unwrap();
    let gap = |a: &f32, b: &f32| f64::from((a - b).abs());
    let pairs = done.iter().zip(&told).zip(prompts);
    pairs
        .flat_map(|((done, told), prompt)| done.logprobs.iter().zip(&told[prompt.len()..]))
        .fold(0.0, |worst, (a, b)| worst.max(gap(a, b)))
}

#[test]
fn the_trainer_gives_sampled_tokens_the_log_probs_they_were_sampled_with_in_bf16_too() {
    // Beginnings that are shared up to any place in a block, and prompts that end at any.
    let lengths =
        [(0, 1), (0, 2), (3, 4), (3, 20), (15, 17), (16, 17), (16, 40), (16, 41), (33, 34), (33, 70)];
    let prompts: Vec<Arc<[u32]>> = lengths
        .iter()
        .enumerate()
        .flat_map(|(i, &(common, length))| {
            let shared = prompt(0, common);
            let own = prompt(i + 1, length - common);
            let whole: Arc<[u32]> = [&shared[..], &own[..]].concat().into();
            [whole.clone(), whole]
        })
        .collect();
    for model in MODELS {
        for kind in [Kind::Float, Kind::BFloat16] {
            for lora in [None, Some(LoraOptions::default())] {
                let checkpoint = load(model, kind);
                let engine = engine(&checkpoint, kind, PLENTY);
                let adam = AdamW { lr: 1e-2, ..AdamW::default() };
                let options = TrainOptions {
                    kind,
                    adam,
                    lora: lora.clone(),
                    micro_batch_tokens: 300,
                    ..TrainOptions::default()
                };
                let mut trainer = Trainer::new(&checkpoint.config, checkpoint.weights, options).unwrap();
                for temperature in [1.0, 0.01, 30.0] {
                    let before = mismatch(&engine, &trainer, &prompts, temperature, 7);
                    let adapters = lora.is_some();
                    assert!(
                        before < 1e-5,
                        "{model}, {kind:?}, adapters {adapters}, {temperature}: {before:e}"
                    );
                }

                let tokens = join(&prompts[19], &one(&engine, &prompts[19], free(), 3));
                let mask: Vec<bool> = (0..tokens.len()).map(|t| t >= 70).collect();
                let given = TrainSample::given("a".into(), "a".into(), tokens, mask);
                let learnt = TrainSample { advantages: vec![1.0; given.tokens.len()], ..given };
                trainer.forward_backward(&[learnt], &LossOptions::default()).unwrap();
                assert!(!trainer.optimiser_step().skipped);
                engine.update_weights(WeightVersion(1), trainer.weights()).unwrap();
                let after = mismatch(&engine, &trainer, &prompts, 1.0, 8);
                assert!(after < 1e-5, "{model}, {kind:?}, adapters {}, updated: {after:e}", lora.is_some());
            }
        }
    }
}

#[test]
fn the_general_backend_agrees_with_the_decoder() {
    for model in MODELS {
        let checkpoint = load(model, Kind::Double);
        let engine = engine(&checkpoint, Kind::Double, PLENTY);
        let requests =
            (0..5).map(|i| request(&i.to_string(), &prompt(i, 9 + 13 * i), free(), i as u64)).collect();
        for (i, done) in sample(&engine, requests).iter().enumerate() {
            let prompt = prompt(i, 9 + 13 * i);
            let ids = join(&prompt, done);
            let (_, worst) = differences(
                &done.logprobs,
                &by_decoder(&checkpoint.config, &checkpoint.weights, &ids, prompt.len()),
            );
            assert!(worst <= 2e-6, "{model}: {worst}");
            let again = engine.logprobs(&ids, prompt.len()).unwrap();
            assert!(
                differences(&again, &done.logprobs.iter().map(|x| f64::from(*x)).collect::<Vec<_>>()).1
                    <= 2e-6
            );
        }
    }
}

#[test]
fn greedy_ids_and_log_probs_are_those_of_transformers() {
    for model in MODELS {
        let expected = expected(model);
        for kind in [Kind::Float, Kind::Double] {
            let engine = engine(&load(model, kind), kind, PLENTY);
            let rows = expected["batch"]["rows"].as_array().unwrap();
            let new = expected["greedy"]["new_tokens"].as_u64().unwrap() as usize;
            let sampling = Sampling { temperature: 0.0, max_tokens: new, ..free() };
            let prompts: Vec<Arc<[u32]>> = rows
                .iter()
                .map(|row| row.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect())
                .collect();
            let requests = prompts
                .iter()
                .enumerate()
                .map(|(i, p)| request(&i.to_string(), p, sampling.clone(), 0))
                .collect();
            for (i, done) in sample(&engine, requests).iter().enumerate() {
                let want: Vec<u64> = expected["greedy"]["tokens"][i]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|t| t.as_u64().unwrap())
                    .collect();
                assert_eq!(
                    done.tokens.iter().map(|t| u64::from(*t)).collect::<Vec<_>>(),
                    want,
                    "{model} {kind:?} row {i}"
                );
                let want: Vec<f64> = expected["greedy"]["logprobs_f64"][i]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|p| p.as_f64().unwrap())
                    .collect();
                assert!(differences(&done.logprobs, &want).1 <= 1e-4, "{model} {kind:?} row {i}");
                assert_eq!(done.finish, FinishReason::Length);
            }
        }
    }
}

/// Twelve requests in three groups of equal prompts, with limits that make them end unevenly.
fn uneven() -> Vec<Request> {
    (0..12)
        .map(|i| {
            let sampling = Sampling { max_tokens: 3 + (i * 5) % 31, temperature: 0.9, ..free() };
            request(&i.to_string(), &prompt(i / 4, 30 + 20 * (i / 4)), sampling, i as u64)
        })
        .collect()
}

#[test]
fn the_same_seed_gives_the_same_tokens_alone_in_a_group_and_in_any_batch() {
    for (model, kind) in [("llama", Kind::Float), ("llama", Kind::BFloat16), ("qwen3_untied", Kind::BFloat16)]
    {
        let checkpoint = load(model, kind);
        let engine = engine(&checkpoint, kind, PLENTY);
        let together = sample(&engine, uneven());
        let mut reversed = uneven();
        reversed.reverse();
        let mut backwards = sample(&engine, reversed);
        backwards.reverse();
        assert_eq!(together, backwards, "{model} {kind:?}");
        for (request, in_batch) in uneven().into_iter().zip(&together) {
            assert_eq!(in_batch.tokens.len(), request.sampling.max_tokens);
            let alone = sample(&engine, vec![request]).remove(0);
            assert_eq!(alone, *in_batch, "{model} {kind:?}");
        }
        // Other seeds, other tokens: the samples of a group are not copies.
        assert_ne!(together[1].tokens[..3], together[2].tokens[..3]);
    }
}

#[test]
fn on_the_general_backend_too_the_batch_changes_no_token() {
    let engine = engine(&load("qwen2", Kind::Double), Kind::Double, PLENTY);
    let together = sample(&engine, uneven());
    for (request, in_batch) in uneven().into_iter().zip(&together) {
        assert_eq!(sample(&engine, vec![request]).remove(0).tokens, in_batch.tokens);
    }
}

#[test]
fn a_budget_smaller_than_the_demand_delays_but_changes_nothing() {
    let checkpoint = load("llama", Kind::Float);
    let want = sample(&engine(&checkpoint, Kind::Float, PLENTY), uneven());
    // Room for about the longest request alone.
    let mut budget = 64 << 10;
    let tight = loop {
        let tight = engine(&checkpoint, Kind::Float, budget);
        if tight.submit(uneven()).into_iter().all(|r| r.is_ok()) {
            break tight;
        }
        budget += 8 << 10;
        assert!(budget < PLENTY / 16, "the budget of this test is no longer tight");
    };
    assert_eq!(sample(&tight, uneven()), want);
}

#[test]
fn a_request_that_can_never_run_is_a_clear_error_and_harms_no_other() {
    let checkpoint = load("llama", Kind::Float);
    let engine = engine(&checkpoint, Kind::Float, 256 << 10);
    let unknown: Arc<[u32]> = vec![1, 99_999].into();
    let empty: Arc<[u32]> = Vec::new().into();
    let requests = vec![
        request("too long", &prompt(0, 1500), free(), 0),
        request("unknown token", &unknown, free(), 0),
        request("empty", &empty, free(), 0),
        request("hot", &prompt(0, 5), Sampling { temperature: -1.0, ..free() }, 0),
        request("fine", &prompt(0, 5), free(), 0),
    ];
    let mut messages = Vec::new();
    let mut fine = 0;
    for result in engine.submit(requests) {
        match result {
            Ok(done) => {
                assert_eq!(done.id, "fine".into());
                fine += 1;
            }
            Err(error) => messages.push(error.to_string()),
        }
    }
    assert_eq!(fine, 1);
    for (message, part) in
        messages.iter().zip(["KV budget", "token 99999", "prompt is empty", "temperature is -1"])
    {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(messages.len(), 4);
}

#[test]
fn the_end_of_the_context_ends_a_sequence() {
    let mut checkpoint = load("llama", Kind::Float);
    checkpoint.config.max_positions = 20;
    let engine = engine(&checkpoint, Kind::Float, PLENTY);
    let done = one(&engine, &prompt(1, 13), free(), 0);
    assert_eq!((done.tokens.len(), done.finish), (7, FinishReason::Length));
    let error = engine.submit(vec![request("full", &prompt(1, 20), free(), 0)]).recv().unwrap().unwrap_err();
    assert!(error.to_string().contains("context is 20"), "{error}");
}

#[test]
fn a_stop_text_is_found_across_tokens_and_only_the_text_is_trimmed() {
    let checkpoint = load("llama", Kind::Float);
    let engine = engine(&checkpoint, Kind::Float, PLENTY);
    let prompt = prompt(4, 12);
    let sampling = Sampling { max_tokens: 40, ..free() };
    let whole = one(&engine, &prompt, sampling.clone(), 9);
    // The last character of one token and the first of the next.
    let text = |n: usize| checkpoint.tokenizer.decode(&whole.tokens[..n], true).unwrap();
    let (stop, end) = (3..whole.tokens.len())
        .find_map(|n| {
            let (before, after) = (text(n), text(n + 1));
            let (a, b) = (before.chars().next_back()?, after.strip_prefix(&before)?.chars().next()?);
            let stop = format!("{a}{b}");
            (stop.is_ascii() && !before.contains(&stop)).then_some((stop, n + 1))
        })
        .expect("some token border has letters on both sides");
    let stopped = one(&engine, &prompt, Sampling { stop: vec!["never".into(), stop.clone()], ..sampling }, 9);
    assert_eq!(stopped.finish, FinishReason::Stop);
    assert_eq!(stopped.tokens, whole.tokens[..end]);
    assert_eq!(stopped.logprobs, whole.logprobs[..end]);
    assert_eq!(stopped.text, whole.text[..whole.text.find(&stop).unwrap()]);
}

#[test]
fn a_stop_id_is_kept_among_the_tokens_and_left_out_of_the_text() {
    let mut checkpoint = load("llama", Kind::Float);
    let prompt = prompt(4, 12);
    let whole = one(&engine(&checkpoint, Kind::Float, PLENTY), &prompt, free(), 9);
    let id = whole.tokens[6];
    let end = whole.tokens.iter().position(|t| *t == id).unwrap() + 1;
    let by_request = Sampling { stop_ids: vec![id], ..free() };
    let stopped = one(&engine(&checkpoint, Kind::Float, PLENTY), &prompt, by_request, 9);
    checkpoint.config.eos = vec![id];
    let by_model = Sampling { ignore_eos: false, ..free() };
    let ended = one(&engine(&checkpoint, Kind::Float, PLENTY), &prompt, by_model, 9);
    assert_eq!(stopped, ended);
    assert_eq!((stopped.finish, &stopped.tokens[..]), (FinishReason::Stop, &whole.tokens[..end]));
    assert_eq!(stopped.text, checkpoint.tokenizer.decode(&whole.tokens[..end - 1], true).unwrap());
}

#[test]
fn a_cancelled_sequence_returns_what_it_has_and_the_others_go_on() {
    let mut checkpoint = load("llama", Kind::Float);
    checkpoint.config.max_positions = 1 << 20;
    let engine = engine(&checkpoint, Kind::Float, 1 << 30);
    let long = Sampling { max_tokens: 200_000, ..free() };
    let endless = engine.submit(vec![request("endless", &prompt(0, 8), long, 1)]);
    // When this one is done, the other has sampled at least as much.
    let want = one(&engine, &prompt(1, 8), free(), 2);
    let beside = engine.submit(vec![request("beside", &prompt(1, 8), free(), 2)]);
    engine.cancel(&"endless".into());
    let aborted = endless.recv().unwrap().unwrap();
    assert_eq!(aborted.finish, FinishReason::Aborted);
    assert!(aborted.tokens.len() >= 20 && aborted.tokens.len() < 200_000);
    assert_eq!(aborted.logprobs.len(), aborted.tokens.len());
    assert_eq!(beside.recv().unwrap().unwrap().tokens, want.tokens);
}

/// The checkpoint's weights with every normalisation weight scaled.
fn changed(checkpoint: &Checkpoint, factor: f64) -> Weights {
    let change = |(name, t): (&String, &Tensor)| {
        (name.clone(), if name.ends_with("norm.weight") { t * factor } else { t.shallow_clone() })
    };
    checkpoint.weights.iter().map(change).collect()
}

fn list(weights: &Weights) -> Vec<(String, Tensor)> {
    weights.iter().map(|(name, t)| (name.clone(), t.shallow_clone())).collect()
}

#[test]
fn after_an_update_the_engine_scores_with_the_new_weights_and_says_so() {
    for kind in [Kind::Float, Kind::Double] {
        let checkpoint = load("qwen3_untied", kind);
        let engine = engine(&checkpoint, kind, PLENTY);
        let ids = prompt(2, 50);
        let before = engine.logprobs(&ids, 10).unwrap();
        let weights = changed(&checkpoint, 1.2);
        engine.update_weights(WeightVersion(7), list(&weights)).unwrap();
        assert_eq!(engine.version(), WeightVersion(7));
        let after = engine.logprobs(&ids, 10).unwrap();
        assert!(differences(&after, &by_decoder(&checkpoint.config, &weights, &ids, 10)).1 <= 1e-4);
        assert!(differences(&after, &before.iter().map(|x| f64::from(*x)).collect::<Vec<_>>()).1 > 1e-2);
        let done = one(&engine, &prompt(1, 9), free(), 1);
        assert!(done.versions.iter().all(|v| *v == WeightVersion(7)));
    }
}

#[test]
fn weights_that_do_not_fit_are_refused_and_the_old_ones_stay() {
    let checkpoint = load("qwen2", Kind::Float);
    let engine = engine(&checkpoint, Kind::Float, PLENTY);
    let ids = prompt(2, 30);
    let before = engine.logprobs(&ids, 10).unwrap();
    let weights = list(&changed(&checkpoint, 2.0));
    let without = weights.iter().skip(1).map(|(n, t)| (n.clone(), t.shallow_clone())).collect();
    let mut renamed: Vec<_> = weights.iter().map(|(n, t)| (n.clone(), t.shallow_clone())).collect();
    renamed[3].0 = "model.layers.99.nothing".into();
    let mut reshaped: Vec<_> = weights.iter().map(|(n, t)| (n.clone(), t.shallow_clone())).collect();
    reshaped[0].1 = Tensor::zeros([2, 2], (Kind::Float, Device::Cpu));
    for (bad, part) in
        [(without, "missing"), (renamed, "model.layers.99.nothing"), (reshaped, "shape [2, 2]")]
    {
        let error = engine.update_weights(WeightVersion(1), bad).unwrap_err();
        assert!(matches!(error, EngineError::Weights { .. }));
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(engine.version(), WeightVersion(0));
        assert_eq!(engine.logprobs(&ids, 10).unwrap(), before);
    }
}

#[test]
fn tokens_sampled_around_an_update_carry_the_version_they_were_sampled_with() {
    let mut checkpoint = load("llama", Kind::Float);
    checkpoint.config.max_positions = 1 << 20;
    let engine = engine(&checkpoint, Kind::Float, 1 << 30);
    let long = Sampling { max_tokens: 100_000, ..free() };
    let endless = engine.submit(vec![request("endless", &prompt(0, 8), long, 1)]);
    one(&engine, &prompt(1, 8), free(), 2);
    let weights = changed(&checkpoint, 1.1);
    engine.update_weights(WeightVersion(1), list(&weights)).unwrap();
    one(&engine, &prompt(1, 8), free(), 2);
    engine.cancel(&"endless".into());
    let done = endless.recv().unwrap().unwrap();
    let border = done.versions.iter().position(|v| *v == WeightVersion(1)).unwrap();
    assert!(border >= 20 && done.versions.len() >= border + 20);
    assert!(done.versions[..border].iter().all(|v| *v == WeightVersion(0)));
    assert!(done.versions[border..].iter().all(|v| *v == WeightVersion(1)));
    // Before the border the old weights' log-probs, to the bit.
    let ids = join(&prompt(0, 8), &done);
    let old = EmbeddedEngine::start(
        &checkpoint.config,
        &checkpoint.weights,
        &checkpoint.tokenizer,
        EngineOptions { kind: Kind::Float, kv_budget_bytes: PLENTY, max_running: 1, threads: 1 },
    )
    .unwrap();
    let ids = &ids[..8 + border + 1];
    let scored = old.logprobs(ids, 8).unwrap();
    assert_eq!(scored[..border], done.logprobs[..border]);
    assert_ne!(scored[border], done.logprobs[border]);
}

#[test]
fn weights_that_are_not_numbers_are_an_error_and_no_token() {
    let checkpoint = load("llama", Kind::Float);
    let engine = engine(&checkpoint, Kind::Float, PLENTY);
    engine.update_weights(WeightVersion(3), list(&changed(&checkpoint, f64::NAN))).unwrap();
    let result = engine.submit(vec![request("one", &prompt(0, 8), free(), 1)]).recv().unwrap();
    assert_eq!(result.unwrap_err(), EngineError::NotFinite(WeightVersion(3)));
    engine.update_weights(WeightVersion(4), list(&checkpoint.weights)).unwrap();
    assert_eq!(one(&engine, &prompt(0, 8), free(), 1).tokens.len(), 24);
}

#[test]
fn who_waits_on_an_engine_that_ends_is_told() {
    let mut checkpoint = load("llama", Kind::Float);
    checkpoint.config.max_positions = 1 << 20;
    let engine = engine(&checkpoint, Kind::Float, 1 << 30);
    let endless =
        engine.submit(vec![request("endless", &prompt(0, 8), Sampling { max_tokens: 200_000, ..free() }, 1)]);
    drop(engine);
    assert!(endless.recv().is_err(), "the channel is closed");
}

/// Nine prompts in three pairs and three of their own: a trunk of `trunk` tokens, what a pair has in common, what is its own.
fn alike(trunk: usize) -> Vec<Arc<[u32]>> {
    let rest = |i: usize| [prompt(100 + i / 2, if i < 6 { 20 } else { 0 }), prompt(i, 1 + 9 * i)].concat();
    (0..9).map(|i| [prompt(50, trunk).to_vec(), rest(i)].concat().into()).collect()
}

#[test]
fn prompts_that_begin_alike_are_computed_together_and_no_bit_changes() {
    for (model, kind) in [("llama", Kind::Float), ("llama", Kind::BFloat16), ("qwen3_tied", Kind::Float)] {
        let checkpoint = load(model, kind);
        for trunk in [1, 15, 16, 17, 70] {
            let requests: Vec<Request> = alike(trunk)
                .iter()
                .enumerate()
                .map(|(i, p)| request(&i.to_string(), p, free(), i as u64))
                .collect();
            let engine = engine(&checkpoint, kind, PLENTY);
            let together = sample(&engine, requests.clone());
            // Whole blocks of sixteen are held once, by what they and all before them hold.
            let mut blocks = std::collections::HashSet::new();
            for prefix in requests.iter().map(|r| &r.prompt[..r.prompt.len() - 1]) {
                let ends = (0..prefix.len()).step_by(16).map(|start| (start + 16).min(prefix.len()));
                blocks.extend(ends.map(|end| &prefix[..end]));
            }
            let tokens: usize = blocks.iter().map(|prefix| (prefix.len() - 1) % 16 + 1).sum();
            assert_eq!(engine.profile().unwrap().prompt_tokens, tokens as u64, "trunk of {trunk}");
            for (request, together) in requests.into_iter().zip(together) {
                let prompt = request.prompt.clone();
                let alone = sample(&engine, vec![request]).remove(0);
                assert_eq!(alone, together, "{model} {kind:?}, trunk of {trunk}");
                let scored = engine.logprobs(&join(&prompt, &alone), prompt.len()).unwrap();
                assert_eq!(scored, together.logprobs);
            }
        }
    }
}

#[test]
fn on_the_general_backend_too_shared_beginnings_change_no_token() {
    let engine = engine(&load("qwen2", Kind::Double), Kind::Double, PLENTY);
    let requests: Vec<Request> =
        alike(130).iter().enumerate().map(|(i, p)| request(&i.to_string(), p, free(), i as u64)).collect();
    let together = sample(&engine, requests.clone());
    for (request, together) in requests.into_iter().zip(together) {
        assert_eq!(sample(&engine, vec![request]).remove(0).tokens, together.tokens);
    }
}

#[test]
fn who_comes_later_reads_the_beginning_of_who_runs_and_neither_notices() {
    for kind in [Kind::Float, Kind::Double] {
        let mut checkpoint = load("llama", kind);
        checkpoint.config.max_positions = 1 << 20;
        let engine = engine(&checkpoint, kind, 1 << 30);
        let (first, second) = (prompt(0, 200), [&prompt(0, 150)[..], &prompt(1, 30)].concat().into());
        let long = Sampling { max_tokens: 100_000, ..free() };
        let running = engine.submit(vec![request("runs", &first, long, 1)]);
        let later = one(&engine, &second, free(), 2);
        // A prompt that ends where the others go on.
        let third: Arc<[u32]> = first[..129].into();
        let last = one(&engine, &third, free(), 3);
        let computed = engine.profile().unwrap().prompt_tokens;
        engine.cancel(&"runs".into());
        let running = running.recv().unwrap().unwrap();
        assert!(running.tokens.len() >= 48);
        let shared = if kind == Kind::Float { 144 } else { 128 };
        assert_eq!(computed, 199 + (179 - shared), "the third prompt finds everything");
        for (prompt, done) in [(&first, &running), (&second, &later), (&third, &last)] {
            let n = done.tokens.len().min(200);
            let ids = &join(prompt, done)[..prompt.len() + n];
            let scored = engine.logprobs(ids, prompt.len()).unwrap();
            if kind == Kind::Float {
                assert_eq!(scored, done.logprobs[..n]);
            } else {
                let got: Vec<f64> = done.logprobs[..n].iter().map(|x| f64::from(*x)).collect();
                assert!(differences(&scored, &got).1 <= 2e-6);
            }
        }
    }
}

#[test]
fn shared_beginnings_are_paid_for_once_so_more_fits_into_a_budget() {
    let checkpoint = load("llama", Kind::Float);
    let config = &checkpoint.config;
    let block = 2 * 16 * config.layers * config.kv_heads * config.head_dim.next_multiple_of(16) * 4;
    let trunk = prompt(50, 160);
    let prompts: Vec<Arc<[u32]>> = (0..4).map(|i| [&trunk[..], &prompt(i, 17)].concat().into()).collect();
    let requests = |sampling: Sampling| {
        let of = |(i, p): (usize, &Arc<[u32]>)| request(&i.to_string(), p, sampling.clone(), i as u64);
        prompts.iter().enumerate().map(of).collect::<Vec<_>>()
    };
    let sampling = Sampling { max_tokens: 16, ..free() };
    // Ten blocks for the trunk; one for the rest of each prompt and one for what is sampled.
    let engine_with = |blocks: usize| engine(&checkpoint, Kind::Float, blocks * block);
    let (tight, tighter) = (engine_with(10 + 4 * 2), engine_with(10 + 3 * 2));
    let all_at_once = sample(&tight, requests(sampling.clone()));
    assert_eq!(tight.profile().unwrap().steps, 16, "all run together");
    let in_two_turns = sample(&tighter, requests(sampling));
    assert_eq!(tighter.profile().unwrap().steps, 32, "the last one waits");
    assert_eq!(all_at_once, in_two_turns);
    assert_eq!(tight.profile().unwrap().prompt_tokens, 160 + 4 * 16);
    assert_eq!(tighter.profile().unwrap().prompt_tokens, 160 + 4 * 16);
}

#[test]
fn what_was_computed_with_old_weights_is_not_read_by_who_comes_after_the_update() {
    let mut checkpoint = load("llama", Kind::Float);
    checkpoint.config.max_positions = 1 << 20;
    let engine = engine(&checkpoint, Kind::Float, 1 << 30);
    let [first, second] = [1, 2].map(|i| [&prompt(0, 100)[..], &prompt(i, 10)].concat().into());
    let long = Sampling { max_tokens: 100_000, ..free() };
    let running = engine.submit(vec![request("runs", &first, long, 1)]);
    one(&engine, &second, free(), 2);
    let weights = changed(&checkpoint, 1.1);
    engine.update_weights(WeightVersion(1), list(&weights)).unwrap();
    for prompt in [&first, &second] {
        let done = one(&engine, prompt, free(), 2);
        assert!(done.versions.iter().all(|v| *v == WeightVersion(1)));
        assert_eq!(engine.logprobs(&join(prompt, &done), prompt.len()).unwrap(), done.logprobs);
    }
    engine.cancel(&"runs".into());
    assert!(running.recv().unwrap().is_ok());
}
