//! Low-rank adapters: which modules have one, how they start, how they merge, and their PEFT files.

use crate::TrainError;
use crate::tensorfile;
use serde::{Deserialize, Serialize};
use std::path::Path;
use tch::{Device, Kind, Tensor};
use whet_model::{Config, Lora, Weights};

/// The linear modules of a layer that can have an adapter.
pub const MODULES: [&str; 7] = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

/// LoRA (arXiv 2106.09685): `W + alpha/rank · B A`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoraOptions {
    /// Rank of each adapter.
    pub rank: usize,
    /// Numerator of the scale `alpha / rank`.
    pub alpha: f64,
    /// Names out of [`MODULES`].
    pub modules: Vec<String>,
    /// Seed of the adapters' first values.
    pub seed: u64,
}

impl Default for LoraOptions {
    fn default() -> Self {
        LoraOptions { rank: 16, alpha: 32.0, modules: MODULES.map(str::to_owned).to_vec(), seed: 0 }
    }
}

impl LoraOptions {
    /// `alpha / rank`.
    pub fn scale(&self) -> f64 {
        self.alpha / self.rank as f64
    }

    /// Fresh adapters: `A` uniform in `±1/√in` as PEFT draws it, `B` zero, so that the model starts unchanged.
    pub(crate) fn start(&self, config: &Config, kind: Kind, device: Device) -> Result<Lora, TrainError> {
        if self.rank == 0 || self.modules.is_empty() {
            return Err(TrainError::Options(
                "LoRA needs a rank of at least 1 and at least one module".into(),
            ));
        }
        if let Some(unknown) = self.modules.iter().find(|m| !MODULES.contains(&m.as_str())) {
            return Err(TrainError::Options(format!(
                "LoRA module `{unknown}` is not known; choose among {}",
                MODULES.join(", ")
            )));
        }
        let mut random = SplitMix(self.seed);
        let rank = self.rank as i64;
        let mut adapters = std::collections::BTreeMap::new();
        for (name, shape) in config.tensors() {
            let Some(module) = name.strip_suffix(".weight") else { continue };
            if !self.modules.iter().any(|m| module.ends_with(&format!(".{m}"))) {
                continue;
            }
            let (out, input) = (shape[0], shape[1]);
            let bound = (input as f64).powf(-0.5);
            let values: Vec<f64> =
                (0..rank * input).map(|_| bound * (2.0 * random.uniform() - 1.0)).collect();
            let a = Tensor::from_slice(&values).view([rank, input]).to_kind(kind).to_device(device);
            adapters.insert(module.to_owned(), (a, Tensor::zeros([out, rank], (kind, device))));
        }
        Ok(Lora { scale: self.scale(), adapters })
    }
}

/// `W + scale · B A` in full precision, cast back to the kind of `W`.
pub(crate) fn merged(weight: &Tensor, a: &Tensor, b: &Tensor, scale: f64) -> Tensor {
    let _guard = tch::no_grad_guard();
    let kind = b.kind();
    (weight.to_kind(kind) + b.matmul(a) * scale).to_kind(weight.kind())
}

/// Name of an adapter's half among the trainer's parameters, as PEFT has it without its prefix.
pub(crate) fn parameter_name(module: &str, half: &str) -> String {
    format!("{module}.lora_{half}.weight")
}

/// Writes `adapter_config.json` and `adapter_model.safetensors` into `dir`, as PEFT reads them.
pub(crate) fn export(
    dir: &Path,
    options: &LoraOptions,
    base: &str,
    parameters: &[(String, Tensor)],
) -> Result<(), TrainError> {
    std::fs::create_dir_all(dir).map_err(|e| TrainError::io(dir, e))?;
    let tensors: Vec<(String, Tensor)> =
        parameters.iter().map(|(name, t)| (format!("base_model.model.{name}"), t.shallow_clone())).collect();
    tensorfile::write(&dir.join("adapter_model.safetensors"), &tensors)?;
    let config = serde_json::json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": options.rank,
        "lora_alpha": options.alpha,
        "lora_dropout": 0.0,
        "target_modules": options.modules,
        "bias": "none",
        "fan_in_fan_out": false,
        "init_lora_weights": true,
        "inference_mode": true,
        "modules_to_save": null,
        "use_rslora": false,
        "use_dora": false,
    });
    let path = dir.join("adapter_config.json");
    std::fs::write(&path, format!("{config:#}\n")).map_err(|e| TrainError::io(&path, e))
}

/// The base weights a model computes with are frozen, its adapters trained; names of what can be merged.
pub(crate) fn merge_all(
    weights: &Weights,
    scale: f64,
    half: impl Fn(&str) -> Option<Tensor>,
) -> Vec<(String, Tensor)> {
    let merge = |(name, weight): (&String, &Tensor)| {
        let module = name.strip_suffix(".weight").unwrap_or(name);
        let adapter = half(&parameter_name(module, "A")).zip(half(&parameter_name(module, "B")));
        let tensor = match adapter {
            Some((a, b)) => merged(weight, &a, &b, scale),
            None => weight.detach(),
        };
        (name.clone(), tensor)
    };
    weights.iter().map(merge).collect()
}

/// SplitMix64: a seed's own numbers, whatever else draws.
struct SplitMix(u64);

impl SplitMix {
    /// Uniform in `[0, 1)`.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}
