//! Same batch, same gradient: for every split into micro-batches, packing and order, with and without
//! recomputation, and equal to autograd over the plain formula.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::json;
use std::collections::BTreeMap;
use tch::{Device, Kind, Tensor};
use whet_algorithm::correction::{Aggregate, Metric, Rejection};
use whet_algorithm::selection::Budget;
use whet_algorithm::{Bounds, Correction, Kl, KlEstimator, Level, Reduction};
use whet_model::{Config, Decoder, Packed, Weights};
use whet_trainer::loss::{Entropy, Region, Reject, Surrogate};
use whet_trainer::{
    AdamW, KlTerm, LoraOptions, LossOptions, Objective, OldPolicy, Ratio, RatioLevel, TrainOptions,
    TrainSample, Trainer,
};
use whet_trajectory::{GroupId, SampleId};

/// A tiny Qwen3, which has every part that a dense decoder here can have but biases.
fn config(tied: bool) -> Config {
    let raw = json!({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 61, "hidden_size": 32,
        "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 8, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": tied,
        "max_position_embeddings": 256, "eos_token_id": 1, "hidden_act": "silu", "attention_bias": false
    });
    Config::from_json(&raw, None, "test").expect("a valid configuration")
}

/// Weights that need no random generator shared with other tests.
fn weights(config: &Config) -> Weights {
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5
    };
    let tensor = |(name, shape): (String, Vec<i64>)| {
        let count: i64 = shape.iter().product();
        let values: Vec<f64> = (0..count).map(|_| draw()).collect();
        let scale = if shape.len() > 1 { 1.0 / (shape[1] as f64).sqrt() } else { 0.2 };
        let base = if shape.len() > 1 { 0.0 } else { 1.0 };
        (name, Tensor::from_slice(&values).view(&shape[..]) * (2.0 * scale) + base)
    };
    config.tensors().into_iter().map(tensor).collect()
}

/// Groups of samples with gaps in their masks, as tool answers leave them. All prompts but the last group's
/// begin alike, and so do the responses of every other sample; no advantage is 0.
fn samples(shapes: &[(u32, usize)]) -> Vec<TrainSample> {
    let make = |(number, &(group, length)): (usize, &(u32, usize))| {
        let system = (0..if group == 2 { 0 } else { 24 }).map(|t| (t * 17 + 2) % 61);
        let prompt = (0..3 + group).map(|t| (group * 7 + t * 5) % 61);
        let prompt: Vec<u32> = system.chain(prompt).collect();
        let like = if number % 2 == 0 { 0 } else { number as u32 };
        let response =
            (0..length as u32).map(|t| (if t < 16 { like } else { number as u32 } * 11 + t * 13 + 3) % 61);
        let tokens: Vec<u32> = prompt.iter().copied().chain(response).collect();
        let trained = |t: usize| t >= prompt.len() && (t + number) % 4 != 3;
        let noise = |t: usize, scale: f32| ((t * 7 + number * 5) % 11) as f32 * scale;
        TrainSample {
            id: SampleId(format!("{number}")),
            group: GroupId(format!("{group}")),
            loss_mask: (0..tokens.len()).map(trained).collect(),
            rollout_logprobs: (0..tokens.len()).map(|t| -4.0 + noise(t, 0.06)).collect(),
            advantages: (0..tokens.len()).map(|t| noise(t, 0.3) - 1.4).collect(),
            old_logprobs: Some((0..tokens.len()).map(|t| -4.2 + noise(t + 3, 0.07)).collect()),
            reference_logprobs: None,
            prompt_len: prompt.len(),
            tokens,
        }
    };
    shapes.iter().enumerate().map(make).collect()
}

fn losses() -> Vec<LossOptions> {
    let kl = Some(KlTerm { estimator: KlEstimator::bounded(Kl::K3), coefficient: 0.1 });
    vec![
        LossOptions { kl, temperature: 0.8, ..LossOptions::default() },
        LossOptions {
            reduction: Reduction::TokenMean,
            objective: Objective::Reinforce,
            ..LossOptions::default()
        },
        LossOptions {
            ratio: Ratio { level: RatioLevel::Sequence, clamp_log: None },
            correction: Some(Correction::truncated(1.2)),
            reduction: Reduction::SequenceMeanTokenSumNorm { length: 16.0 },
            ..LossOptions::default()
        },
        LossOptions {
            objective: Objective::KlCov { coefficient: 0.5, share: 0.3 },
            ..LossOptions::default()
        },
        LossOptions {
            objective: Objective::ClipCov { low: 0.2, high: 0.3, covariance: (0.05, 0.4), share: 0.4 },
            ..LossOptions::default()
        },
        LossOptions {
            entropy: Entropy { bonus: 0.3, top_share: 0.4 },
            rejections: vec![Reject::Veto(0.9), Reject::OffPolicy { delta: 0.01, from_rollout: true }],
            temperature: 0.7,
            ..LossOptions::default()
        },
        LossOptions {
            old: OldPolicy::Rollout,
            correction: None,
            objective: Objective::SecondMoment { budget: 0.02, least: (0.01, 0.02) },
            rejections: vec![Reject::SecondMoment(0.05)],
            ..LossOptions::default()
        },
        LossOptions {
            old: OldPolicy::Current,
            normalise_correction: true,
            correction: Some(Correction { level: Level::Sequence, ..Correction::truncated(1.5) }),
            rejections: vec![Reject::Mismatch(Rejection {
                metric: Metric::Ratio,
                over: Some(Aggregate::Mean),
                bounds: Bounds { low: Some(0.9), high: Some(1.1) },
            })],
            reduction: Reduction::TokenMean,
            ..LossOptions::default()
        },
        LossOptions {
            ratio: Ratio { level: RatioLevel::SequenceToken, clamp_log: Some(20.0) },
            objective: Objective::Cispo { low: 0.9, high: 1.1, by_sign: false },
            entropy: Entropy { bonus: 0.05, top_share: 1.0 },
            ..LossOptions::default()
        },
        LossOptions {
            objective: Objective::Sapo { positive: 1.0, negative: 1.05 },
            ..LossOptions::default()
        },
        LossOptions { objective: Objective::Gmpo { low: 0.1, high: 0.1 }, ..LossOptions::default() },
        LossOptions {
            objective: Objective::Dppo {
                region: Region::TotalVariation { low: 0.01, high: 0.01 },
                surrogate: Surrogate::Detached { cap: 1.1 },
                drift: 0.01,
            },
            ..LossOptions::default()
        },
        LossOptions { objective: Objective::Cpgd { low: 0.1, high: 0.1 }, ..LossOptions::default() },
        LossOptions { objective: Objective::Dro { beta: 0.5 }, ..LossOptions::default() },
        LossOptions {
            objective: Objective::Spo { eps: 0.5, by_probability: true },
            ..LossOptions::default()
        },
        LossOptions {
            objective: Objective::Vespo { detached: false, positive: (2.0, 3.0), negative: (3.0, 2.0) },
            ..LossOptions::default()
        },
        LossOptions {
            objective: Objective::Importance,
            reduction: Reduction::TokenSum,
            ..LossOptions::default()
        },
        LossOptions {
            objective: Objective::Within { budget: Budget { delta: 0.02, least_weight: 0.5, rate: 0.005 } },
            ..LossOptions::default()
        },
    ]
}

fn gradients(
    config: &Config,
    options: TrainOptions,
    samples: &[TrainSample],
    loss: &LossOptions,
) -> BTreeMap<String, Tensor> {
    let mut trainer = Trainer::new(config, weights(config), options).expect("a trainer");
    trainer.forward_backward(samples, loss).expect("a gradient");
    trainer.gradients().into_iter().collect()
}

fn options(kind: Kind, budget: usize) -> TrainOptions {
    TrainOptions { kind, micro_batch_tokens: budget, reference: true, ..TrainOptions::default() }
}

/// Largest difference of the two gradients, relative to the norm of the first.
fn distance(a: &BTreeMap<String, Tensor>, b: &BTreeMap<String, Tensor>) -> f64 {
    let square = |t: &Tensor| t.to_kind(Kind::Double).square().sum(Kind::Double).double_value(&[]);
    let difference: f64 = a.iter().map(|(name, t)| square(&(t - &b[name]))).sum();
    (difference / a.values().map(square).sum::<f64>()).sqrt()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn for_every_split_and_order_of_a_batch_the_gradient_is_the_same(
        shapes in prop::collection::vec((0u32..3, 1usize..24), 2..10),
        budget in 4usize..120, turn in 0usize..10, tied: bool, recompute: bool, which in 0usize..18
    ) {
        tch::set_num_threads(1);
        let (config, loss) = (config(tied), &losses()[which]);
        let samples = samples(&shapes);
        prop_assume!(samples.iter().any(|s| s.loss_mask.contains(&true)));
        let mut turned = samples.clone();
        turned.rotate_left(turn % samples.len());
        for (kind, bound) in [(Kind::Float, 1e-6), (Kind::Double, 1e-13)] {
            let whole = gradients(&config, options(kind, 10_000), &samples, loss);
            let split = TrainOptions { gradient_checkpointing: recompute, ..options(kind, budget) };
            let split = gradients(&config, split, &turned, loss);
            let found = distance(&whole, &split);
            if found > bound {
                return Err(TestCaseError::fail(format!("{kind:?}: {found:e} above {bound:e}")));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]
    #[test]
    fn for_every_loss_samples_without_an_advantage_count_but_need_not_be_computed(
        shapes in prop::collection::vec((0u32..3, 1usize..24, any::<bool>()), 3..10), which in 0usize..18
    ) {
        tch::set_num_threads(1);
        let (config, loss) = (config(true), &losses()[which]);
        let silent: Vec<bool> = shapes.iter().map(|(.., silent)| *silent).collect();
        let with = |advantage: f32| {
            let mut samples = samples(&shapes.iter().map(|&(group, length, _)| (group, length)).collect::<Vec<_>>());
            samples.iter_mut().zip(&silent).filter(|(_, silent)| **silent).for_each(|(sample, _)| {
                sample.advantages.fill(advantage);
            });
            samples
        };
        let trained = |s: &TrainSample| s.loss_mask.contains(&true);
        prop_assume!(with(0.0).iter().zip(&silent).any(|(s, silent)| !silent && trained(s)));
        let run = |samples: &[TrainSample]| {
            let mut trainer = Trainer::new(&config, weights(&config), options(Kind::Double, 200)).expect("a trainer");
            let metrics = trainer.forward_backward(samples, loss).expect("a gradient");
            (metrics, trainer.gradients().into_iter().collect::<BTreeMap<String, Tensor>>())
        };
        // An advantage too small to be seen in the sums, yet not 0, so that nothing is left out.
        let ((left_out, gradient), (all, expected)) = (run(&with(0.0)), run(&with(1e-30)));
        // Absolute, since all that is left may be clipped.
        for (name, expected) in &expected {
            let found = (&gradient[name] - expected).abs().max().double_value(&[]);
            prop_assert!(found < 1e-12, "{name}: {found:e}");
        }
        prop_assert!((left_out.loss - all.loss).abs() < 1e-12 * all.loss.abs().max(1.0));
        prop_assert_eq!((left_out.tokens, left_out.sequences), (all.tokens, all.sequences));
        prop_assert_eq!(all.computed, all.tokens);
        let alone =
            loss.kl.is_none() && loss.entropy.bonus == 0.0 && loss.objective.vanishes_without_advantage();
        let of_silent = with(0.0).iter().zip(&silent).any(|(s, silent)| *silent && trained(s));
        prop_assert_eq!(left_out.computed < all.computed, alone && of_silent);
    }
}

#[test]
fn where_no_sample_has_an_advantage_the_gradient_is_zero_and_the_first_group_tells_the_mismatch() {
    tch::set_num_threads(1);
    let config = config(true);
    let mut samples = samples(&[(0, 5), (1, 9), (0, 4), (2, 7)]);
    samples.iter_mut().for_each(|sample| sample.advantages.fill(0.0));
    let mut trainer = Trainer::new(&config, weights(&config), options(Kind::Float, 100)).expect("a trainer");
    let metrics = trainer.forward_backward(&samples, &LossOptions::default()).expect("metrics");
    let first: usize = [0, 2].map(|s: usize| samples[s].trained()).iter().sum();
    assert_eq!((metrics.computed, metrics.loss), (first, 0.0));
    assert!(metrics.tokens > first && metrics.mismatch_mean > 0.0);
    assert!(trainer.gradients().iter().all(|(_, g)| g.count_nonzero(None).int64_value(&[]) == 0));
    // The optimiser's momentum moves on, as it would with all samples computed.
    assert!(!trainer.optimiser_step().skipped);
}

/// The loss of the first option set, its KL term by `kl`, written down once more over plain padded-free
/// sequences and autograd.
fn plain_gradients(
    config: &Config,
    samples: &[TrainSample],
    temperature: f64,
    kl: f64,
) -> BTreeMap<String, Tensor> {
    let weights: Weights =
        weights(config).into_iter().map(|(n, t)| (n, t.detach().set_requires_grad(true))).collect();
    let decoder = Decoder::new(config, &weights).expect("a decoder");
    let trained: Vec<&TrainSample> = samples.iter().filter(|s| s.loss_mask.contains(&true)).collect();
    let mut total = Tensor::zeros([], (Kind::Double, Device::Cpu));
    for sample in &trained {
        let packed = Packed::sequences(&[&sample.tokens], Device::Cpu).expect("a sequence");
        let log_probs =
            (decoder.logits(&decoder.hidden(&packed)) / temperature).log_softmax(-1, Kind::Double);
        let positions: Vec<usize> = (0..sample.tokens.len()).filter(|&t| sample.loss_mask[t]).collect();
        let mut sum = Tensor::zeros([], (Kind::Double, Device::Cpu));
        for &t in &positions {
            let lp = log_probs.get(t as i64 - 1).get(i64::from(sample.tokens[t]));
            let old = f64::from(sample.old_logprobs.as_ref().expect("old log-probabilities")[t]);
            let advantage = f64::from(sample.advantages[t]);
            let ratio = (&lp - old).exp();
            let clipped: Tensor = -(ratio.clamp(0.8, 1.2) * advantage);
            let loss = (-(&ratio * advantage)).maximum(&clipped);
            let weight = (old - f64::from(sample.rollout_logprobs[t])).exp().min(2.0);
            // The reference is the policy itself: k3 and its gradient are 0 there.
            let d: Tensor = lp.detach() - &lp;
            sum = sum + loss * weight + (d.exp() - d - 1.0) * kl;
        }
        let mean = sum / positions.len() as f64 / trained.len() as f64;
        total = &total + mean;
    }
    total.backward();
    weights.into_iter().map(|(name, t)| (name, t.grad())).collect()
}

#[test]
fn the_gradient_is_that_of_autograd_over_the_plain_formula() {
    tch::set_num_threads(1);
    let plain_loss = LossOptions { temperature: 0.8, ..LossOptions::default() };
    for (tied, loss, kl) in [(true, &losses()[0], 0.1), (false, &losses()[0], 0.1), (true, &plain_loss, 0.0)]
    {
        let config = config(tied);
        let mut samples = samples(&[(0, 5), (0, 19), (1, 4), (0, 20), (0, 1), (2, 7), (1, 6)]);
        samples[2].advantages.fill(0.0);
        let ours = gradients(&config, options(Kind::Double, 60), &samples, loss);
        let plain = plain_gradients(&config, &samples, 0.8, kl);
        assert_eq!(ours.keys().collect::<Vec<_>>(), plain.keys().collect::<Vec<_>>());
        for (name, expected) in &plain {
            let found = (&ours[name] - expected).abs().max().double_value(&[]);
            // The head's log-probabilities, rounded nowhere, leave only summation order.
            assert!(found < 1e-12, "{name} (tied: {tied}): {found:e}");
        }
    }
}

#[test]
fn a_trained_adapter_merged_into_the_weights_gives_the_adapters_log_probabilities() {
    tch::set_num_threads(1);
    let (config, samples) = (config(true), samples(&[(0, 6), (0, 8), (1, 5)]));
    let lora = Some(LoraOptions { rank: 4, ..LoraOptions::default() });
    let adam = AdamW { lr: 0.05, ..AdamW::default() };
    let options = TrainOptions { lora, adam, kind: Kind::Float, ..TrainOptions::default() };
    let mut trainer = Trainer::new(&config, weights(&config), options).expect("a trainer");
    let before = trainer.logprobs(&samples, whet_trainer::Which::Policy, 1.0).expect("log-probabilities");
    for _ in 0..3 {
        trainer.forward_backward(&samples, &LossOptions::default()).expect("a gradient");
        assert!(!trainer.optimiser_step().skipped);
    }
    let adapted = trainer.logprobs(&samples, whet_trainer::Which::Policy, 1.0).expect("log-probabilities");
    let reference =
        trainer.logprobs(&samples, whet_trainer::Which::Reference, 1.0).expect("log-probabilities");
    let plain = TrainOptions { kind: Kind::Float, ..TrainOptions::default() };
    let merged: Weights = trainer.weights().into_iter().collect();
    let merged = Trainer::new(&config, merged, plain).expect("a trainer");
    let merged = merged.logprobs(&samples, whet_trainer::Which::Policy, 1.0).expect("log-probabilities");
    assert_eq!(before, reference, "without its adapters the model is what it was");
    let far = |a: &[Vec<f32>], b: &[Vec<f32>]| {
        a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    };
    assert!(far(&adapted, &before) > 0.1, "training moved the policy");
    assert!(far(&adapted, &merged) < 1e-4, "merging changed it by {}", far(&adapted, &merged));
}
