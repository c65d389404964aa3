//! A decoder's shape, read from `config.json` in both layouts that checkpoints have.
//!
//! Up to transformers 4, files hold `rope_theta`, `rope_scaling` and `torch_dtype`; transformers 5
//! writes `rope_parameters` and `dtype`. Anything that would change the mathematics and is not
//! implemented (sliding windows, another activation, an unknown rotary scaling) is refused here, so
//! that a model is either computed as it was trained or not at all.

use crate::error::ModelError;
use crate::rope::{Rope, RopeScaling};
use serde_json::{Map, Value};

/// Decoder layers that no model exceeds; more is a damaged configuration.
const MOST_LAYERS: usize = 1024;

/// The families of decoders, for messages.
pub const SUPPORTED: &str =
    "LlamaForCausalLM (SmolLM2 too), Qwen2ForCausalLM (Qwen2.5 too) and Qwen3ForCausalLM";

/// A family of decoders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Llama 2 and 3, SmolLM2.
    Llama,
    /// Qwen2 and Qwen2.5: biases on the query, key and value projections.
    Qwen2,
    /// Qwen3: RMSNorm over each query and key head.
    Qwen3,
}

impl Family {
    /// `model_type` of `config.json`, which is also the architecture's name in GGUF files.
    pub fn model_type(self) -> &'static str {
        match self {
            Family::Llama => "llama",
            Family::Qwen2 => "qwen2",
            Family::Qwen3 => "qwen3",
        }
    }

    /// The class in transformers.
    pub fn architecture(self) -> &'static str {
        match self {
            Family::Llama => "LlamaForCausalLM",
            Family::Qwen2 => "Qwen2ForCausalLM",
            Family::Qwen3 => "Qwen3ForCausalLM",
        }
    }

    /// The family of a `model_type`.
    pub fn from_model_type(name: &str) -> Option<Family> {
        [Family::Llama, Family::Qwen2, Family::Qwen3].into_iter().find(|f| f.model_type() == name)
    }
}

/// The shape of a decoder.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The family.
    pub family: Family,
    /// Rows of the embedding; may exceed the tokenizer's vocabulary.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Number of decoder layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of one head; `heads * head_dim` need not be `hidden_size`.
    pub head_dim: usize,
    /// Epsilon of every RMSNorm.
    pub norm_eps: f64,
    /// Rotary position embedding.
    pub rope: Rope,
    /// The output projection is the embedding.
    pub tied: bool,
    /// The query, key and value projections have biases.
    pub qkv_bias: bool,
    /// The attention's output projection has a bias.
    pub o_bias: bool,
    /// The feed-forward projections have biases.
    pub mlp_bias: bool,
    /// RMSNorm over each query and key head before the rotary embedding.
    pub qk_norm: bool,
    /// The longest sequence the model was made for, in tokens.
    pub max_positions: usize,
    /// Ids that end a generation, of `generation_config.json` and `config.json`.
    pub eos: Vec<u32>,
    /// The id that begins a text, where the model has one.
    pub bos: Option<u32>,
    /// `config.json` as it was, for export.
    pub raw: Value,
}

impl Config {
    /// Reads `config.json`, and `generation_config.json` where there is one.
    ///
    /// `origin` names the file in errors.
    pub fn from_json(raw: &Value, generation: Option<&Value>, origin: &str) -> Result<Config, ModelError> {
        let fields = Fields { map: raw.as_object().ok_or_else(|| not_an_object(origin))?, origin };
        let family = family(&fields)?;
        let heads = fields.count("num_attention_heads")?;
        let hidden_size = fields.count("hidden_size")?;
        let kv_heads = fields.count_or("num_key_value_heads", heads)?;
        if heads % kv_heads != 0 {
            return Err(fields.error(format!(
                "`num_attention_heads` = {heads} is not a multiple of `num_key_value_heads` = {kv_heads}"
            )));
        }
        // Qwen3's class has its own default, the others derive it.
        let head_dim = match (fields.present("head_dim"), family) {
            (Some(_), _) => fields.count("head_dim")?,
            (None, Family::Qwen3) => 128,
            (None, _) => hidden_size / heads,
        };
        if head_dim == 0 || head_dim % 2 != 0 {
            return Err(fields.error(format!("`head_dim` = {head_dim} must be even")));
        }
        let layers = fields.count("num_hidden_layers")?;
        if layers > MOST_LAYERS {
            return Err(fields.error(format!("`num_hidden_layers` = {layers} is more than {MOST_LAYERS}")));
        }
        let activation = fields.present("hidden_act").and_then(Value::as_str).unwrap_or("silu");
        if activation != "silu" {
            return Err(fields.error(format!("`hidden_act` is `{activation}`; only `silu` is supported")));
        }
        refuse_sliding_windows(&fields, layers)?;
        let max_positions = fields
            .count_or("max_position_embeddings", if family == Family::Llama { 2048 } else { 32_768 })?;
        let attention_bias = fields.flag("attention_bias")?;
        let bos =
            fields.present("bos_token_id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
        Ok(Config {
            family,
            vocab_size: fields.count("vocab_size")?,
            hidden_size,
            intermediate_size: fields.count("intermediate_size")?,
            layers,
            heads,
            kv_heads,
            head_dim,
            norm_eps: fields.number_or("rms_norm_eps", 1e-6)?,
            rope: rope(&fields, max_positions)?,
            tied: fields.flag("tie_word_embeddings")?,
            qkv_bias: family == Family::Qwen2 || attention_bias,
            o_bias: family != Family::Qwen2 && attention_bias,
            mlp_bias: family == Family::Llama && fields.flag("mlp_bias")?,
            qk_norm: family == Family::Qwen3,
            max_positions,
            eos: end_ids(&fields, generation)?,
            bos,
            raw: raw.clone(),
        })
    }

    /// Query heads per key head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Every tensor of the model: its Hugging Face name and shape.
    pub fn tensors(&self) -> Vec<(String, Vec<i64>)> {
        let (hidden, wide) = (self.hidden_size as i64, self.intermediate_size as i64);
        let (vocab, dim) = (self.vocab_size as i64, self.head_dim as i64);
        let (q, kv) = (self.heads as i64 * dim, self.kv_heads as i64 * dim);
        let mut all = vec![("model.embed_tokens.weight".to_owned(), vec![vocab, hidden])];
        for i in 0..self.layers {
            let mut add = |name: &str, shape: &[i64]| {
                all.push((format!("model.layers.{i}.{name}"), shape.to_vec()));
            };
            add("input_layernorm.weight", &[hidden]);
            for (name, rows, cols, bias) in [
                ("self_attn.q_proj", q, hidden, self.qkv_bias),
                ("self_attn.k_proj", kv, hidden, self.qkv_bias),
                ("self_attn.v_proj", kv, hidden, self.qkv_bias),
                ("self_attn.o_proj", hidden, q, self.o_bias),
                ("mlp.gate_proj", wide, hidden, self.mlp_bias),
                ("mlp.up_proj", wide, hidden, self.mlp_bias),
                ("mlp.down_proj", hidden, wide, self.mlp_bias),
            ] {
                add(&format!("{name}.weight"), &[rows, cols]);
                if bias {
                    add(&format!("{name}.bias"), &[rows]);
                }
            }
            if self.qk_norm {
                add("self_attn.q_norm.weight", &[dim]);
                add("self_attn.k_norm.weight", &[dim]);
            }
            add("post_attention_layernorm.weight", &[hidden]);
        }
        all.push(("model.norm.weight".into(), vec![hidden]));
        if !self.tied {
            all.push(("lm_head.weight".into(), vec![vocab, hidden]));
        }
        all
    }

    /// Number of parameters, tied ones once.
    pub fn parameters(&self) -> u64 {
        self.tensors().iter().map(|(_, shape)| shape.iter().product::<i64>().unsigned_abs()).sum()
    }
}

/// The fields of a JSON object, with errors that name them.
struct Fields<'a> {
    map: &'a Map<String, Value>,
    origin: &'a str,
}

impl Fields<'_> {
    fn error(&self, reason: impl Into<String>) -> ModelError {
        ModelError::config(self.origin, reason)
    }

    /// The value, unless absent or null.
    fn present(&self, name: &str) -> Option<&Value> {
        self.map.get(name).filter(|v| !v.is_null())
    }

    fn count(&self, name: &str) -> Result<usize, ModelError> {
        let value = self.present(name).ok_or_else(|| self.error(format!("`{name}` is missing")))?;
        match value.as_u64() {
            Some(n) if n > 0 && n <= u64::from(u32::MAX) => Ok(n as usize),
            _ => Err(self.error(format!("`{name}` must be a positive whole number, not {value}"))),
        }
    }

    fn count_or(&self, name: &str, default: usize) -> Result<usize, ModelError> {
        if self.present(name).is_some() { self.count(name) } else { Ok(default) }
    }

    fn number(&self, name: &str) -> Result<f64, ModelError> {
        let value = self.present(name).ok_or_else(|| self.error(format!("`{name}` is missing")))?;
        value.as_f64().ok_or_else(|| self.error(format!("`{name}` must be a number, not {value}")))
    }

    fn number_or(&self, name: &str, default: f64) -> Result<f64, ModelError> {
        if self.present(name).is_some() { self.number(name) } else { Ok(default) }
    }

    fn flag(&self, name: &str) -> Result<bool, ModelError> {
        match self.present(name) {
            None => Ok(false),
            Some(Value::Bool(b)) => Ok(*b),
            Some(other) => Err(self.error(format!("`{name}` must be true or false, not {other}"))),
        }
    }
}

fn not_an_object(origin: &str) -> ModelError {
    ModelError::config(origin, "it must be a JSON object")
}

fn family(fields: &Fields) -> Result<Family, ModelError> {
    let class = fields
        .present("architectures")
        .and_then(Value::as_array)
        .and_then(|a| a.first())
        .and_then(Value::as_str);
    let model_type = fields.present("model_type").and_then(Value::as_str);
    let by_type = model_type.and_then(Family::from_model_type);
    match (class, by_type) {
        (Some(class), Some(family)) if class == family.architecture() => Ok(family),
        (None, Some(family)) => Ok(family),
        _ => Err(ModelError::Architecture {
            origin: fields.origin.to_owned(),
            found: class.or(model_type).unwrap_or("none").to_owned(),
        }),
    }
}

fn refuse_sliding_windows(fields: &Fields, layers: usize) -> Result<(), ModelError> {
    let listed = fields.present("layer_types").and_then(Value::as_array);
    let windowed = match listed {
        Some(types) => types.iter().any(|t| t.as_str() != Some("full_attention")),
        None => fields.flag("use_sliding_window")? && fields.count_or("max_window_layers", 0)? < layers,
    };
    if windowed {
        return Err(fields.error("layers with sliding-window attention are not supported"));
    }
    Ok(())
}

fn rope(fields: &Fields, max_positions: usize) -> Result<Rope, ModelError> {
    let nested = |name: &str| fields.present(name).and_then(Value::as_object);
    let empty = Map::new();
    let new = nested("rope_parameters");
    let inner =
        Fields { map: new.or_else(|| nested("rope_scaling")).unwrap_or(&empty), origin: fields.origin };
    let theta = match new {
        Some(_) if inner.present("rope_theta").is_some() => inner.number("rope_theta")?,
        _ => fields.number_or("rope_theta", 10_000.0)?,
    };
    for holder in [fields, &inner] {
        if holder.number_or("partial_rotary_factor", 1.0)? != 1.0 {
            return Err(fields.error("`partial_rotary_factor` other than 1 is not supported"));
        }
    }
    let kind = inner.present("rope_type").or_else(|| inner.present("type")).and_then(Value::as_str);
    let original = |default: usize| -> Result<f64, ModelError> {
        match inner.present("original_max_position_embeddings") {
            Some(_) => inner.number("original_max_position_embeddings"),
            None => Ok(fields.count_or("original_max_position_embeddings", default)? as f64),
        }
    };
    let scaling = match kind.unwrap_or("default") {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear { factor: inner.number("factor")? },
        "llama3" => RopeScaling::Llama3 {
            factor: inner.number("factor")?,
            low_freq_factor: inner.number("low_freq_factor")?,
            high_freq_factor: inner.number("high_freq_factor")?,
            original: original(max_positions)?,
        },
        "yarn" => {
            let factor = inner.number("factor")?;
            let mscale = |scale: f64, m: f64| if scale <= 1.0 { 1.0 } else { 0.1 * m * scale.ln() + 1.0 };
            let attention = match inner.present("attention_factor") {
                Some(_) => inner.number("attention_factor")?,
                None => match (inner.number_or("mscale", 0.0)?, inner.number_or("mscale_all_dim", 0.0)?) {
                    (m, all) if m != 0.0 && all != 0.0 => mscale(factor, m) / mscale(factor, all),
                    _ => mscale(factor, 1.0),
                },
            };
            RopeScaling::Yarn {
                factor,
                original: original(max_positions)?,
                beta_fast: inner.number_or("beta_fast", 32.0)?,
                beta_slow: inner.number_or("beta_slow", 1.0)?,
                truncate: inner.present("truncate") != Some(&Value::Bool(false)),
                attention,
            }
        }
        other => {
            return Err(fields.error(format!(
                "rotary scaling `{other}` is not supported (supported: default, linear, llama3, yarn)"
            )));
        }
    };
    Ok(Rope { theta, scaling })
}

/// `eos_token_id` is a number or a list, and `generation_config.json` comes first.
fn end_ids(fields: &Fields, generation: Option<&Value>) -> Result<Vec<u32>, ModelError> {
    let from_generation = generation.and_then(|g| g.get("eos_token_id"));
    let mut ids = Vec::new();
    for value in [from_generation, fields.present("eos_token_id")].into_iter().flatten() {
        let list = match value {
            Value::Array(list) => list.as_slice(),
            Value::Null => continue,
            single => std::slice::from_ref(single),
        };
        for id in list {
            let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
            let id =
                id.ok_or_else(|| fields.error(format!("`eos_token_id` must be token ids, not {value}")))?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn base() -> Value {
        json!({
            "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 100, "hidden_size": 64,
            "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "eos_token_id": 7, "rope_theta": 5e5
        })
    }

    fn parse(change: Value) -> Result<Config, ModelError> {
        let mut value = base();
        for (key, new) in change.as_object().unwrap() {
            value[key] = new.clone();
        }
        Config::from_json(&value, Some(&json!({"eos_token_id": [9, 7]})), "config.json")
    }

    #[test]
    fn absent_fields_take_the_defaults_of_the_class() {
        let config = parse(json!({})).unwrap();
        assert_eq!(
            (config.head_dim, config.qk_norm, config.qkv_bias, config.tied),
            (128, true, false, false)
        );
        assert_eq!(config.rope, Rope { theta: 5e5, scaling: RopeScaling::None });
    }

    #[test]
    fn ends_of_both_files_are_joined() {
        assert_eq!(parse(json!({})).unwrap().eos, [9, 7]);
    }

    #[test]
    fn both_layouts_of_the_rotary_settings_mean_the_same() {
        let old = parse(json!({"rope_scaling": {"type": "linear", "factor": 4.0}})).unwrap();
        let new = json!({"rope_theta": null, "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5}});
        assert_eq!(old.rope, parse(new).unwrap().rope);
    }

    #[test]
    fn what_would_change_the_mathematics_is_refused_by_name() {
        for (change, word) in [
            (json!({"hidden_act": "gelu"}), "gelu"),
            (json!({"use_sliding_window": true, "max_window_layers": 1}), "sliding"),
            (json!({"layer_types": ["full_attention", "sliding_attention"]}), "sliding"),
            (json!({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}), "dynamic"),
            (json!({"num_key_value_heads": 3}), "num_key_value_heads"),
            (json!({"hidden_size": "wide"}), "hidden_size"),
            (json!({"vocab_size": null}), "vocab_size"),
            (json!({"architectures": ["MistralForCausalLM"]}), "MistralForCausalLM"),
            (json!({"partial_rotary_factor": 0.5}), "partial_rotary_factor"),
        ] {
            let message = parse(change).unwrap_err().to_string();
            assert!(message.contains(word) && message.contains("config.json"), "{message}");
        }
    }
}
