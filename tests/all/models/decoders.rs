//! Decoders: logits, hidden states, log-probs, gradients and greedy continuations.

use super::{entries, fixtures, ids, json, name, numbers};
use safetensors::SafeTensors;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tch::{Device, Kind, Tensor};
use whet_model::{Checkpoint, Config, Decoder, ModelError, Packed, load};

/// Largest difference of f32 from the f64 reference.
const CLOSE: f64 = 1e-4;

/// A model folder and its reference numbers.
struct Reference {
    name: String,
    folder: PathBuf,
    expected: Value,
    arrays: BTreeMap<String, Tensor>,
}

/// Every model folder of a supported architecture.
fn references() -> Vec<Reference> {
    let mut found = Vec::new();
    for folder in entries(&fixtures()) {
        let config = folder.join("config.json");
        if !config.exists() || !folder.join("expected.json").exists() {
            continue;
        }
        match Config::from_json(&json(&config), None, &config.display().to_string()) {
            Err(ModelError::Architecture { .. }) => continue,
            Err(error) => panic!("{error}"),
            Ok(_) => found.push(Reference {
                name: name(&folder),
                expected: json(&folder.join("expected.json")),
                arrays: arrays(&folder.join("expected.safetensors")),
                folder,
            }),
        }
    }
    assert!(!found.is_empty(), "no model of a supported architecture in {}", fixtures().display());
    found
}

fn arrays(path: &Path) -> BTreeMap<String, Tensor> {
    let bytes = std::fs::read(path).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let read = |(name, view): (String, safetensors::tensor::TensorView)| {
        let kind = match view.dtype() {
            safetensors::Dtype::F64 => Kind::Double,
            safetensors::Dtype::F32 => Kind::Float,
            _ => return None,
        };
        let shape: Vec<i64> = view.shape().iter().map(|&n| n as i64).collect();
        Some((name, Tensor::from_data_size(view.data(), &shape, kind).to_kind(Kind::Double)))
    };
    tensors.tensors().into_iter().filter_map(read).collect()
}

fn decoder(checkpoint: &Checkpoint) -> Decoder {
    Decoder::new(&checkpoint.config, &checkpoint.weights).unwrap()
}

fn open(reference: &Reference, kind: Kind) -> Checkpoint {
    load(reference.folder.to_str().unwrap(), kind, Device::Cpu).unwrap()
}

fn difference(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.size(), b.size());
    (a.to_kind(Kind::Double) - b.to_kind(Kind::Double)).abs().max().double_value(&[])
}

fn assert_close(what: &str, got: &[f64], expected: &[f64], within: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!((g - e).abs() <= within, "{what}[{i}]: {g} instead of {e}");
    }
}

/// Log-probs of each row's next token, and the entropies, as `[T - 1]` each.
fn scores(logits: &Tensor, row: &[u32]) -> (Vec<f64>, Vec<f64>) {
    let next = Tensor::from_slice(&row[1..].iter().map(|&id| i64::from(id)).collect::<Vec<_>>());
    let logp = logits.narrow(0, 0, row.len() as i64 - 1).to_kind(Kind::Double).log_softmax(-1, None::<Kind>);
    let picked = logp.gather(1, &next.unsqueeze(1), false).squeeze_dim(1);
    let entropy = -(logp.exp() * &logp).sum_dim_intlist(-1, false, None::<Kind>);
    (picked.try_into().unwrap(), entropy.try_into().unwrap())
}

#[test]
fn logits_and_hidden_states_are_those_of_the_reference() {
    let _guard = tch::no_grad_guard();
    for reference in references() {
        for (kind, within) in [(Kind::Float, CLOSE), (Kind::Double, 1e-8)] {
            let decoder = decoder(&open(&reference, kind));
            let short = &reference.expected["short"];
            let row = ids(&short["input_ids"]);
            let packed = Packed::sequences(&[&row], Device::Cpu).unwrap();
            let mut x = decoder.embed(&packed.ids);
            for i in 0..=decoder.config.layers {
                let hidden = if i == decoder.config.layers { decoder.norm(&x) } else { x.shallow_clone() };
                let expected = &reference.arrays[&format!("short.hidden.{i}.f64")];
                let far = difference(&hidden, expected);
                assert!(far <= within, "{} {kind:?}: hidden state {i} differs by {far}", reference.name);
                if i < decoder.config.layers {
                    x = decoder.layer(i, &x, &packed);
                }
            }
            let logits = decoder.logits(&decoder.hidden(&packed));
            let far = difference(&logits, &reference.arrays["short.logits.f64"]);
            assert!(far <= within, "{} {kind:?}: logits differ by {far}", reference.name);
            let (logp, entropy) = scores(&logits, &row);
            assert_close(&reference.name, &logp, &numbers(&short["logprobs_f64"]), within);
            assert_close(&reference.name, &entropy, &numbers(&short["entropy_f64"]), within);
        }
    }
}

/// The real tokens of padded rows; positions count them, so padding on either side drops out.
fn unpadded(side: &Value) -> Vec<Vec<u32>> {
    let rows = side["input_ids"].as_array().unwrap().iter().zip(side["attention_mask"].as_array().unwrap());
    rows.map(|(row, mask)| ids(row).into_iter().zip(ids(mask)).filter(|p| p.1 == 1).map(|p| p.0).collect())
        .collect()
}

/// How many tokens each row has.
fn counts(rows: &[Vec<u32>]) -> Vec<i64> {
    rows.iter().map(|row| row.len() as i64).collect()
}

#[test]
fn rows_padded_left_or_right_score_as_the_reference() {
    let _guard = tch::no_grad_guard();
    for reference in references() {
        let decoder = decoder(&open(&reference, Kind::Float));
        for side in ["left", "right"] {
            let batch = &reference.expected["batch"][side];
            let rows = unpadded(batch);
            let packed = Packed::sequences(&rows, Device::Cpu).unwrap();
            let logits = decoder.logits(&decoder.hidden(&packed));
            for (i, (row, own)) in rows.iter().zip(logits.split_with_sizes(counts(&rows), 0)).enumerate() {
                let what = format!("{} {side} row {i}", reference.name);
                let (logp, entropy) = scores(&own, row);
                assert_close(&what, &logp, &numbers(&batch["logprobs_f64"][i]), CLOSE);
                assert_close(&what, &entropy, &numbers(&batch["entropy_f64"][i]), CLOSE);
                for (at, key) in [(0, "first"), (row.len() as i64 - 1, "last")] {
                    let expected = &reference.arrays[&format!("batch.{side}.{key}_logits.f64")];
                    let far = difference(&own.get(at), &expected.get(i as i64));
                    assert!(far <= CLOSE, "{what}: {key} logits differ by {far}");
                }
            }
        }
    }
}

#[test]
fn gradients_of_the_mean_loss_are_those_of_the_reference() {
    for reference in references() {
        let checkpoint = open(&reference, Kind::Float);
        for tensor in checkpoint.weights.values() {
            let _ = tensor.set_requires_grad(true);
        }
        let expected = &reference.expected["grads_of_mean_loss"];
        let batch = &reference.expected["batch"][expected["batch"].as_str().unwrap()];
        let rows = unpadded(batch);
        let packed = Packed::sequences(&rows, Device::Cpu).unwrap();
        let decoder = decoder(&checkpoint);
        let logp = decoder.logits(&decoder.hidden(&packed)).log_softmax(-1, None::<Kind>);
        let (mut at, mut next) = (Vec::new(), Vec::new());
        let mut start = 0;
        for (row, length) in rows.iter().zip(counts(&rows)) {
            at.extend(start..start + length - 1);
            start += length;
            next.extend(row[1..].iter().map(|&id| i64::from(id)));
        }
        assert_eq!(at.len() as u64, batch["loss_tokens"].as_u64().unwrap());
        let picked = logp.index_select(0, &Tensor::from_slice(&at));
        let loss = -picked.gather(1, &Tensor::from_slice(&next).unsqueeze(1), false).mean(None::<Kind>);
        assert_close(
            &reference.name,
            &[loss.double_value(&[])],
            &[batch["loss_f64"].as_f64().unwrap()],
            CLOSE,
        );
        loss.backward();

        let global = expected["global_norm_f64"].as_f64().unwrap();
        let parameters = expected["parameters"].as_object().unwrap();
        assert_eq!(parameters.len(), checkpoint.weights.len(), "{}", reference.name);
        for (name, values) in parameters {
            let what = format!("{} {name}", reference.name);
            let gradient = checkpoint.weights[name].grad().to_kind(Kind::Double).flatten(0, -1);
            let norm = values["norm_f64"].as_f64().unwrap();
            // Some true gradients are zero, so the scale is never below a share of the whole.
            let within = CLOSE * norm.max(1e-4 * global);
            let found = gradient.norm().double_value(&[]);
            assert_close(&what, &[found], &[norm], within);
            let edge: Vec<f64> = gradient.narrow(0, 0, 4).try_into().unwrap();
            assert_close(&what, &edge, &numbers(&values["head_f64"]), within);
            let edge: Vec<f64> = gradient.narrow(0, gradient.size()[0] - 4, 4).try_into().unwrap();
            assert_close(&what, &edge, &numbers(&values["tail_f64"]), within);
            let sum = gradient.sum(Kind::Double).double_value(&[]);
            // A sum of n errors of the size above.
            let spread = within * (gradient.size()[0] as f64).sqrt();
            assert_close(&what, &[sum], &[values["sum_f64"].as_f64().unwrap()], spread);
        }
    }
}

#[test]
fn greedy_continuations_are_those_of_the_reference() {
    let _guard = tch::no_grad_guard();
    for reference in references() {
        let greedy = &reference.expected["greedy"];
        let decoder = decoder(&open(&reference, Kind::Float));
        let mut rows = unpadded(&reference.expected["batch"][greedy["batch"].as_str().unwrap()]);
        let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
        let mut logprobs = vec![Vec::new(); rows.len()];
        for _ in 0..greedy["new_tokens"].as_u64().unwrap() {
            let packed = Packed::sequences(&rows, Device::Cpu).unwrap();
            let hidden = decoder.hidden(&packed);
            let hidden = hidden.split_with_sizes(counts(&rows), 0);
            for ((row, hidden), logprobs) in rows.iter_mut().zip(hidden).zip(&mut logprobs) {
                let last = hidden.narrow(0, -1, 1);
                let logp =
                    decoder.logits(&last).to_kind(Kind::Double).log_softmax(-1, None::<Kind>).squeeze();
                let best = logp.argmax(0, false).int64_value(&[]);
                logprobs.push(logp.double_value(&[best]));
                row.push(best as u32);
            }
        }
        for (i, row) in rows.iter().enumerate() {
            let what = format!("{} row {i}", reference.name);
            assert_eq!(row[lengths[i]..], ids(&greedy["tokens"][i]), "{what}");
            assert_close(&what, &logprobs[i], &numbers(&greedy["logprobs_f64"][i]), CLOSE);
        }
    }
}

#[test]
fn both_layouts_of_config_json_describe_the_same_model() {
    for reference in references() {
        let read = |file: &str| {
            let path = reference.folder.join(file);
            let mut config = Config::from_json(&json(&path), None, file).unwrap();
            config.raw = Value::Null;
            config
        };
        assert_eq!(read("config.json"), read("config_v5.json"), "{}", reference.name);
    }
}

#[test]
fn a_saved_model_loads_as_what_it_was() {
    for reference in references() {
        let first = open(&reference, Kind::BFloat16);
        let folder = tempfile::tempdir().unwrap();
        whet_model::save(folder.path(), &first.files, &first.weights).unwrap();
        let again = load(folder.path().to_str().unwrap(), Kind::BFloat16, Device::Cpu).unwrap();
        assert_eq!(first.weights.keys().collect::<Vec<_>>(), again.weights.keys().collect::<Vec<_>>());
        for (name, tensor) in &first.weights {
            assert!(tensor.equal(&again.weights[name]), "{} {name}", reference.name);
        }
        assert_eq!(first.template.is_some(), again.template.is_some());
        assert_eq!(json(&folder.path().join("config.json"))["torch_dtype"], "bfloat16");
    }
}

#[test]
fn sharded_weights_load_as_one_file() {
    for reference in references() {
        let whole = open(&reference, Kind::Float);
        let folder = tempfile::tempdir().unwrap();
        whet_model::save(folder.path(), &whole.files, &Default::default()).unwrap();
        std::fs::remove_file(folder.path().join("model.safetensors")).unwrap();
        let mut map = serde_json::Map::new();
        for (shard, odd) in [("a.safetensors", false), ("b.safetensors", true)] {
            let half = whole.weights.iter().enumerate().filter(|(i, _)| (i % 2 == 1) == odd);
            let half: whet_model::Weights = half.map(|(_, (n, t))| (n.clone(), t.shallow_clone())).collect();
            map.extend(half.keys().map(|name| (name.clone(), shard.into())));
            whet_model::write_tensors(&folder.path().join(shard), &half).unwrap();
        }
        let index = serde_json::json!({"metadata": {}, "weight_map": map});
        std::fs::write(folder.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
        let again = load(folder.path().to_str().unwrap(), Kind::Float, Device::Cpu).unwrap();
        assert!(whole.weights.iter().all(|(name, t)| t.equal(&again.weights[name])), "{}", reference.name);
    }
}

#[test]
fn bf16_stays_near_f32() {
    let _guard = tch::no_grad_guard();
    for reference in references() {
        let row = ids(&reference.expected["short"]["input_ids"]);
        let packed = Packed::sequences(&[&row], Device::Cpu).unwrap();
        let decoder = decoder(&open(&reference, Kind::BFloat16));
        let logits = decoder.logits(&decoder.hidden(&packed));
        assert_eq!(logits.kind(), Kind::BFloat16);
        let (logp, _) = scores(&logits, &row);
        assert_close(&reference.name, &logp, &numbers(&reference.expected["short"]["logprobs_f64"]), 0.2);
    }
}
