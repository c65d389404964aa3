//! Packed trees compute what each branch would as a sequence of its own.

use proptest::prelude::*;
use serde_json::json;
use tch::{Device, Kind, Tensor};
use whet_model::{Config, Decoder, Lora, Packed, Tree, Weights};

fn config(heads: usize, kv_heads: usize) -> Config {
    let raw = json!({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 50, "hidden_size": 12,
        "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": 6, "tie_word_embeddings": true
    });
    Config::from_json(&raw, None, "config.json").unwrap()
}

fn weights(config: &Config, seed: i64) -> Weights {
    tch::manual_seed(seed);
    let random = |shape: &[i64]| Tensor::randn(shape, (Kind::Double, Device::Cpu)) * 0.3;
    let tensors = config.tensors().into_iter();
    tensors.map(|(name, shape)| (name, random(&shape).set_requires_grad(true))).collect()
}

/// A prompt and its responses.
type Group = (Vec<u32>, Vec<Vec<u32>>);

fn groups() -> impl Strategy<Value = Vec<Group>> {
    let tokens = |most: usize| prop::collection::vec(0u32..50, 1..most);
    prop::collection::vec((tokens(7), prop::collection::vec(tokens(6), 0..4)), 1..4)
}

fn packed(groups: &[Group]) -> Packed {
    let (mut ids, mut trees) = (Vec::new(), Vec::new());
    for (prompt, responses) in groups {
        let branches = responses.iter().map(Vec::len).collect();
        trees.push(Tree { start: ids.len(), prefix: prompt.len(), branches });
        ids.extend(prompt);
        ids.extend(responses.iter().flatten());
    }
    Packed::new(&ids, trees, Device::Cpu).unwrap()
}

/// A weight for every element, so that each gradient counts.
fn fixed(size: &[i64]) -> Tensor {
    let count = size.iter().product::<i64>();
    (Tensor::arange(count, (Kind::Double, Device::Cpu)) * 0.7).sin().view(size)
}

fn gradients(weights: &Weights) -> Vec<Tensor> {
    weights
        .values()
        .map(|t| {
            let gradient = t.grad().copy();
            let _ = t.grad().zero_();
            gradient
        })
        .collect()
}

fn far(a: &Tensor, b: &Tensor) -> f64 {
    (a - b).abs().max().double_value(&[])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn for_every_tree_each_branch_equals_its_own_sequence(groups in groups(), shape in 0usize..3, seed in 0i64..1000) {
        let (heads, kv_heads) = [(4, 2), (3, 1), (2, 2)][shape];
        let config = config(heads, kv_heads);
        let weights = weights(&config, seed);
        let decoder = Decoder::new(&config, &weights).unwrap();

        let tree = packed(&groups);
        let logits = decoder.logits(&decoder.hidden(&tree));
        let factors = fixed(&logits.size());
        (&logits * &factors).sum(Kind::Double).backward();
        let tree_gradients = gradients(&weights);

        // The same rows as plain sequences. Prompt rows are taken from one sequence only.
        let mut alone = Vec::new();
        let mut row = 0;
        for (prompt, responses) in &groups {
            let mut part = |decoder: &Decoder, sequence: &[u32], skip: usize| {
                let packed = Packed::sequences(&[sequence], Device::Cpu).unwrap();
                let logits = decoder.logits(&decoder.hidden(&packed));
                let kept = (sequence.len() - skip) as i64;
                let logits = logits.narrow(0, skip as i64, kept);
                (&logits * factors.narrow(0, row, kept)).sum(Kind::Double).backward();
                row += kept;
                alone.push(logits.detach());
            };
            part(&decoder, prompt, 0);
            for response in responses {
                part(&decoder, &[prompt.as_slice(), response].concat(), prompt.len());
            }
        }
        prop_assert!(far(&logits, &Tensor::cat(&alone, 0)) < 1e-9);
        for (a, b) in tree_gradients.iter().zip(gradients(&weights)) {
            prop_assert!(far(a, &b) < 1e-8);
        }
    }
}

/// bf16 on a CPU takes another way through attention than f32 and f64.
#[test]
fn bf16_trees_stay_near_their_values_in_f64() {
    let config = config(4, 2);
    let exact = weights(&config, 3);
    let rounded: Weights = exact
        .iter()
        .map(|(name, t)| (name.clone(), t.detach().to_kind(Kind::BFloat16).set_requires_grad(true)))
        .collect();
    let packed =
        packed(&[(vec![1, 2, 3, 4], vec![vec![5, 6], vec![7], vec![8, 9, 10]]), (vec![11, 12], vec![])]);
    let mut gradients = Vec::new();
    for weights in [&exact, &rounded] {
        let decoder = Decoder::new(&config, weights).unwrap();
        let logits = decoder.logits(&decoder.hidden(&packed)).to_kind(Kind::Double);
        (&logits * fixed(&logits.size())).sum(Kind::Double).backward();
        gradients.push(weights["model.layers.0.self_attn.k_proj.weight"].grad().to_kind(Kind::Double));
    }
    let relative = (&gradients[0] - &gradients[1]).norm() / gradients[0].norm();
    assert!(relative.double_value(&[]) < 0.05, "{relative:?}");
}

#[test]
fn trees_that_do_not_fit_their_tokens_are_refused() {
    let tree = |start, prefix, branches: &[usize]| Tree { start, prefix, branches: branches.to_vec() };
    for trees in [
        vec![],
        vec![tree(0, 2, &[])],
        vec![tree(1, 3, &[])],
        vec![tree(0, 0, &[3])],
        vec![tree(0, 2, &[0, 1])],
        vec![tree(0, 1, &[1]), tree(3, 1, &[])],
    ] {
        assert!(Packed::new(&[1, 2, 3], trees.clone(), Device::Cpu).is_err(), "{trees:?}");
    }
}

#[test]
fn an_adapter_adds_what_merging_it_would() {
    let _guard = tch::no_grad_guard();
    let config = config(4, 2);
    let mut weights = weights(&config, 5);
    let module = "model.layers.1.self_attn.q_proj";
    let (a, b) = (fixed(&[2, 12]), fixed(&[24, 2]));
    let packed = packed(&[(vec![1, 2, 3], vec![vec![4, 5], vec![6]])]);
    let lora =
        Lora { scale: 0.5, adapters: [(module.to_owned(), (a.shallow_clone(), b.shallow_clone()))].into() };
    let adapted = Decoder::new(&config, &weights).unwrap().with_lora(&lora).unwrap().hidden(&packed);
    let name = format!("{module}.weight");
    let merged = &weights[&name] + b.matmul(&a) * 0.5;
    weights.insert(name, merged);
    let merged = Decoder::new(&config, &weights).unwrap().hidden(&packed);
    assert!(far(&adapted, &merged) < 1e-12);

    let stray = Lora { scale: 1.0, adapters: [("model.layers.9.mlp.up_proj".to_owned(), (a, b))].into() };
    let error = Decoder::new(&config, &weights).unwrap().with_lora(&stray).unwrap_err();
    assert!(error.to_string().contains("model.layers.9.mlp.up_proj"));
}
