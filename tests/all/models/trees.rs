//! Packed nodes compute what each would as the end of a sequence of its own.

use proptest::prelude::*;
use serde_json::json;
use tch::{Device, Kind, Tensor};
use whet_model::{Config, Decoder, Lora, Node, Packed, Weights};

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

/// Every node continues one before it, or none: `(choice of the parent, tokens)`.
type Forest = Vec<(usize, Vec<u32>)>;

fn forests() -> impl Strategy<Value = Forest> {
    prop::collection::vec((0usize..100, prop::collection::vec(0u32..50, 1..7)), 1..9)
}

/// Of node `i`, whose choice is among the nodes before it and none.
fn parent(forest: &Forest, i: usize) -> Option<usize> {
    (forest[i].0 % (i + 1)).checked_sub(1)
}

fn packed(forest: &Forest) -> Packed {
    let node = |i: usize| Node { parent: parent(forest, i), length: forest[i].1.len() };
    let nodes: Vec<Node> = (0..forest.len()).map(node).collect();
    let ids: Vec<u32> = forest.iter().flat_map(|(_, tokens)| tokens).copied().collect();
    Packed::new(&ids, &nodes, Device::Cpu).unwrap()
}

/// The tokens of a node's sequence, from its root to its own end.
fn sequence(forest: &Forest, i: usize) -> Vec<u32> {
    let mut tokens = parent(forest, i).map_or(Vec::new(), |parent| sequence(forest, parent));
    tokens.extend(&forest[i].1);
    tokens
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
    fn for_every_forest_each_node_equals_the_end_of_its_own_sequence(
        forest in forests(), shape in 0usize..3, seed in 0i64..1000
    ) {
        let (heads, kv_heads) = [(4, 2), (3, 1), (2, 2)][shape];
        let config = config(heads, kv_heads);
        let weights = weights(&config, seed);
        let decoder = Decoder::new(&config, &weights).unwrap();

        let logits = decoder.logits(&decoder.hidden(&packed(&forest)));
        let factors = fixed(&logits.size());
        (&logits * &factors).sum(Kind::Double).backward();
        let forest_gradients = gradients(&weights);

        // Each node's rows out of a plain sequence of its own.
        let mut alone = Vec::new();
        let mut row = 0;
        for i in 0..forest.len() {
            let sequence = sequence(&forest, i);
            let packed = Packed::sequences(&[&sequence], Device::Cpu).unwrap();
            let own = forest[i].1.len() as i64;
            let logits = decoder.logits(&decoder.hidden(&packed)).narrow(0, sequence.len() as i64 - own, own);
            (&logits * factors.narrow(0, row, own)).sum(Kind::Double).backward();
            row += own;
            alone.push(logits.detach());
        }
        prop_assert!(far(&logits, &Tensor::cat(&alone, 0)) < 1e-9);
        for (a, b) in forest_gradients.iter().zip(gradients(&weights)) {
            prop_assert!(far(a, &b) < 1e-8);
        }
    }
}

/// bf16 on a CPU takes another way through attention than f32 and f64.
#[test]
fn bf16_forests_stay_near_their_values_in_f64() {
    let config = config(4, 2);
    let exact = weights(&config, 3);
    let rounded: Weights = exact
        .iter()
        .map(|(name, t)| (name.clone(), t.detach().to_kind(Kind::BFloat16).set_requires_grad(true)))
        .collect();
    // A prompt, two that continue it, responses to one of these, and a sequence of its own.
    let tokens: [&[u32]; 7] = [&[1, 2, 3, 4], &[5, 6], &[7], &[8, 9, 10], &[11], &[12, 13], &[14, 15]];
    let forest = [0, 1, 1, 2, 2, 2, 0].into_iter().zip(tokens.map(<[u32]>::to_vec)).collect();
    let packed = packed(&forest);
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
fn nodes_that_do_not_fit_their_tokens_are_refused() {
    let node = |parent, length| Node { parent, length };
    for nodes in [
        vec![],
        vec![node(None, 2)],
        vec![node(None, 4)],
        vec![node(None, 3), node(Some(0), 0)],
        vec![node(Some(0), 3)],
        vec![node(Some(1), 1), node(None, 2)],
        vec![node(None, 1), node(Some(5), 2)],
    ] {
        assert!(Packed::new(&[1, 2, 3], &nodes, Device::Cpu).is_err(), "{nodes:?}");
    }
}

#[test]
fn an_adapter_adds_what_merging_it_would() {
    let _guard = tch::no_grad_guard();
    let config = config(4, 2);
    let mut weights = weights(&config, 5);
    let module = "model.layers.1.self_attn.q_proj";
    let (a, b) = (fixed(&[2, 12]), fixed(&[24, 2]));
    let packed = packed(&vec![(0, vec![1, 2, 3]), (1, vec![4, 5]), (1, vec![6])]);
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
