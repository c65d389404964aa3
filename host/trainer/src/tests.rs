//! The trainer through its verbs, on a tiny model.

mod heads;

use crate::*;
use serde_json::json;
use tch::{Kind, Tensor};
use whet_model::{Config, Weights};
use whet_trajectory::{GroupId, SampleId, WeightVersion};

fn model() -> (Config, Weights) {
    let raw = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 23, "hidden_size": 16,
        "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true,
        "max_position_embeddings": 64, "eos_token_id": 1, "hidden_act": "silu"
    });
    let config = Config::from_json(&raw, None, "test").expect("a valid configuration");
    let mut state = 7u64;
    let mut draw = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5
    };
    let weights = config.tensors().into_iter().map(|(name, shape)| {
        let values: Vec<f64> = (0..shape.iter().product()).map(|_| draw()).collect();
        let base = if shape.len() > 1 { 0.0 } else { 1.0 };
        (name, Tensor::from_slice(&values).view(&shape[..]) + base)
    });
    (config.clone(), weights.collect())
}

fn sample(number: u32, advantage: f32) -> TrainSample {
    let tokens = vec![2, 5, 3, 7 + number, 4, 11];
    TrainSample {
        id: SampleId(number.to_string()),
        group: GroupId("0".into()),
        prompt_len: 3,
        loss_mask: (0..tokens.len()).map(|t| t >= 3).collect(),
        rollout_logprobs: vec![-3.0; tokens.len()],
        advantages: vec![advantage; tokens.len()],
        tokens,
        old_logprobs: None,
        reference_logprobs: None,
    }
}

fn trainer(options: TrainOptions) -> Trainer {
    let (config, weights) = model();
    Trainer::new(&config, weights, options).expect("a trainer")
}

fn options() -> TrainOptions {
    let adam = AdamW { lr: 0.02, ..AdamW::default() };
    TrainOptions { kind: Kind::Float, adam, ..TrainOptions::default() }
}

fn train(trainer: &mut Trainer, steps: usize) {
    let loss = LossOptions { correction: None, ..LossOptions::default() };
    for _ in 0..steps {
        trainer.forward_backward(&[sample(0, 1.0), sample(1, -1.0)], &loss).expect("a gradient");
        assert!(!trainer.optimiser_step().skipped);
    }
}

fn weights(trainer: &Trainer) -> Vec<f64> {
    let flat = |t: &Tensor| Vec::<f64>::try_from(t.to_kind(Kind::Double).view([-1])).expect("numbers");
    trainer.weights().iter().flat_map(|(_, t)| flat(t)).collect()
}

#[test]
fn what_is_rewarded_becomes_likelier_and_what_is_not_rarer() {
    for kind in [Kind::Float, Kind::BFloat16] {
        for lora in [None, Some(LoraOptions { rank: 4, ..LoraOptions::default() })] {
            let mut trainer = trainer(TrainOptions { kind, lora, ..options() });
            let samples = [sample(0, 1.0), sample(1, -1.0)];
            let first = |t: &Trainer| {
                let lists = t.logprobs(&samples, Which::Policy, 1.0).expect("log-probabilities");
                [lists[0][3], lists[1][3]]
            };
            let before = first(&trainer);
            train(&mut trainer, 4);
            let after = first(&trainer);
            assert!(after[0] > before[0] + 0.1 && after[1] < before[1] - 0.1, "{before:?} {after:?}");
            assert_eq!(trainer.version(), WeightVersion(4));
        }
    }
}

#[test]
fn a_run_that_was_saved_and_loaded_ends_with_the_weights_of_one_that_was_not() {
    let dir = tempfile::tempdir().expect("a folder");
    for lora in [None, Some(LoraOptions { rank: 2, ..LoraOptions::default() })] {
        let options = TrainOptions { lora, ..options() };
        let mut straight = trainer(options.clone());
        train(&mut straight, 5);

        let mut first = trainer(options.clone());
        train(&mut first, 2);
        let path = dir.path().join("checkpoint");
        first.save(&path).expect("saved");
        let mut second = trainer(options);
        second.load(&path).expect("loaded");
        assert_eq!(second.version(), WeightVersion(2));
        train(&mut second, 3);
        assert_eq!(weights(&straight), weights(&second));
    }
}

#[test]
fn a_torn_checkpoint_is_told_from_one_of_another_model() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("checkpoint");
    let mut saved = trainer(options());
    train(&mut saved, 1);
    saved.save(&path).expect("saved");
    let mut other = trainer(TrainOptions { lora: Some(LoraOptions::default()), ..options() });
    let error = other.load(&path).expect_err("adapters are not full weights");
    assert!(matches!(error, TrainError::Checkpoint(CheckpointError::Incompatible { .. })), "{error}");

    for file in ["weights.safetensors", "moments.safetensors", "manifest.json"] {
        let whole = std::fs::read(path.join(file)).expect("a file");
        let mut flipped = whole.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        for torn in [&whole[..whole.len() - 7], &flipped, &[]] {
            std::fs::write(path.join(file), torn).expect("written");
            let mut fresh = trainer(options());
            let before = weights(&fresh);
            let error = fresh.load(&path).expect_err("torn");
            assert!(matches!(error, TrainError::Checkpoint(CheckpointError::Torn { .. })), "{file}: {error}");
            assert_eq!(weights(&fresh), before, "a failed load changes nothing");
        }
        std::fs::write(path.join(file), whole).expect("written");
    }
    trainer(options()).load(&path).expect("whole again");
}

#[test]
fn saving_over_a_checkpoint_replaces_it_and_leaves_nothing_beside_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("checkpoint");
    let mut trainer = trainer(options());
    for _ in 0..2 {
        train(&mut trainer, 1);
        trainer.save(&path).expect("saved");
    }
    let names: Vec<_> =
        std::fs::read_dir(dir.path()).expect("a folder").map(|e| e.expect("entry").file_name()).collect();
    assert_eq!(names, ["checkpoint"]);
    trainer.load(&path).expect("loaded");
    assert_eq!(trainer.version(), WeightVersion(2));
}

#[test]
fn an_infinite_gradient_is_reported_and_changes_nothing() {
    let mut trainer = trainer(options());
    train(&mut trainer, 1);
    let before = weights(&trainer);
    let mut huge = sample(0, f32::MAX);
    huge.rollout_logprobs = vec![-300.0; huge.tokens.len()];
    let loss = LossOptions {
        correction: Some(whet_algorithm::Correction::truncated(f64::MAX)),
        ..LossOptions::default()
    };
    trainer.forward_backward(&[huge], &loss).expect("a gradient, if not a finite one");
    let step = trainer.optimiser_step();
    assert!(step.skipped && !step.grad_norm.is_finite());
    assert_eq!((weights(&trainer), trainer.version()), (before, WeightVersion(1)));
    train(&mut trainer, 1);
}

#[test]
fn a_batch_without_a_trained_token_has_no_gradient() {
    let mut masked = sample(0, 1.0);
    masked.loss_mask = vec![false; masked.tokens.len()];
    let mut trainer = trainer(options());
    let metrics = trainer.forward_backward(&[masked.clone()], &LossOptions::default()).expect("metrics");
    assert_eq!((metrics.tokens, metrics.loss), (0, 0.0));
    assert!(trainer.optimiser_step().skipped);

    let with = trainer.forward_backward(&[masked, sample(1, 1.0)], &LossOptions::default()).expect("metrics");
    trainer.zero_grad();
    let without = trainer.forward_backward(&[sample(1, 1.0)], &LossOptions::default()).expect("metrics");
    assert_eq!((with.loss, with.sequences), (without.loss, 1));
}

#[test]
fn on_the_first_update_every_ratio_is_one_and_the_mismatch_is_that_to_the_rollout() {
    let mut trainer = trainer(options());
    let mut samples = [sample(0, 1.0), sample(1, -1.0)];
    for (sample, list) in
        samples.clone().iter().zip(trainer.logprobs(&samples, Which::Policy, 0.7).expect("values"))
    {
        let sample = samples.iter_mut().find(|s| s.id == sample.id).expect("the sample");
        sample.rollout_logprobs = list.iter().map(|lp| lp - 0.125).collect();
    }
    let loss = LossOptions { temperature: 0.7, ..LossOptions::default() };
    let metrics = trainer.forward_backward(&samples, &loss).expect("metrics");
    assert_eq!((metrics.ratio_min, metrics.ratio_max, metrics.clip_fraction), (1.0, 1.0, 0.0));
    assert!((metrics.mismatch_mean - 0.125).abs() < 1e-6 && (metrics.mismatch_max - 0.125).abs() < 1e-6);
    assert!((metrics.correction_mean - 0.125f64.exp()).abs() < 1e-6);
    assert_eq!((metrics.tokens, metrics.computed, metrics.micro_batches), (6, 6, 1));
}

#[test]
fn a_kl_term_without_a_reference_is_refused_with_the_remedy() {
    let kl =
        KlTerm { estimator: whet_algorithm::KlEstimator::plain(whet_algorithm::Kl::K3), coefficient: 0.1 };
    let loss = LossOptions { kl: Some(kl), ..LossOptions::default() };
    let error = trainer(options()).forward_backward(&[sample(0, 1.0)], &loss).expect_err("no reference");
    assert!(error.to_string().contains("`reference`"), "{error}");
}

#[test]
fn an_adapter_is_exported_as_peft_reads_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let lora =
        LoraOptions { rank: 2, alpha: 4.0, modules: vec!["q_proj".into(), "down_proj".into()], seed: 3 };
    let trainer = trainer(TrainOptions { lora: Some(lora), ..options() });
    trainer.export_adapter(dir.path(), "org/model").expect("exported");
    let config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("adapter_config.json")).expect("a file"))
            .expect("JSON");
    assert_eq!(
        (&config["peft_type"], &config["r"], &config["target_modules"]),
        (&json!("LORA"), &json!(2), &json!(["q_proj", "down_proj"]))
    );
    let bytes = std::fs::read(dir.path().join("adapter_model.safetensors")).expect("a file");
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("safetensors");
    let mut names = file.names();
    names.sort();
    assert_eq!(names.len(), 8);
    assert_eq!(names[0], "base_model.model.model.layers.0.mlp.down_proj.lora_A.weight");
    let q = file.tensor("base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight").expect("a tensor");
    assert_eq!(q.shape(), [2, 16]);
}
