//! GGUF files: metadata, and the tensors of a decoder under their Hugging Face names.
//!
//! The format is that of `docs/gguf.md` in ggml, versions 2 and 3, little-endian. Converted Llama
//! files have the rows of the query and key projections interleaved for another rotary layout; that
//! is undone here.

use crate::config::{Config, Family};
use crate::decoder::Weights;
use crate::dequantise::GgmlType;
use crate::error::ModelError;
use crate::rope::{Rope, RopeScaling};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tch::{Device, Kind, Tensor};
use whet_native::map::Mapped;

/// Nested arrays beyond this depth are refused.
const DEPTH: usize = 4;

/// An open GGUF file.
pub struct Gguf {
    path: PathBuf,
    map: Mapped,
    metadata: BTreeMap<String, Value>,
    tensors: BTreeMap<String, Place>,
}

/// Where a tensor lies.
struct Place {
    /// Row-major, outermost first.
    shape: Vec<i64>,
    kind: u32,
    start: usize,
}

impl Gguf {
    /// Opens a file and reads its metadata and table of tensors.
    ///
    /// # Errors
    /// When the file is missing, not GGUF, of an unknown version, or cut off.
    pub fn open(path: &Path) -> Result<Gguf, ModelError> {
        let map = Mapped::open(path).map_err(|e| ModelError::io("read", path, e))?;
        match parse(&map) {
            Ok((metadata, tensors)) => Ok(Gguf { path: path.to_owned(), map, metadata, tensors }),
            Err(reason) => Err(ModelError::Weights { path: path.to_owned(), format: "GGUF", reason }),
        }
    }

    fn error(&self, reason: impl Into<String>) -> ModelError {
        ModelError::Weights { path: self.path.clone(), format: "GGUF", reason: reason.into() }
    }

    /// The file's path, for messages.
    pub(crate) fn origin(&self) -> String {
        self.path.display().to_string()
    }

    /// A metadata value.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    fn shape(&self, tensor: &str) -> Option<&[i64]> {
        self.tensors.get(tensor).map(|p| p.shape.as_slice())
    }

    /// The decoder's shape, as a `config.json` would say it.
    ///
    /// # Errors
    /// When the architecture is not supported or a key is missing.
    pub fn config(&self) -> Result<Config, ModelError> {
        let architecture = self.get("general.architecture").and_then(Value::as_str).unwrap_or("none");
        let Some(family) = Family::from_model_type(architecture) else {
            return Err(ModelError::Architecture { origin: self.origin(), found: architecture.to_owned() });
        };
        let key = |name: &str| self.get(&format!("{architecture}.{name}"));
        let embedding =
            self.shape("token_embd.weight").ok_or_else(|| self.error("no `token_embd.weight`"))?;
        let mut raw = Map::new();
        raw.insert("architectures".into(), json!([family.architecture()]));
        raw.insert("model_type".into(), json!(family.model_type()));
        raw.insert("hidden_act".into(), json!("silu"));
        raw.insert("vocab_size".into(), json!(embedding[0]));
        raw.insert("tie_word_embeddings".into(), json!(self.shape("output.weight").is_none()));
        for (field, name) in [
            ("hidden_size", "embedding_length"),
            ("intermediate_size", "feed_forward_length"),
            ("num_hidden_layers", "block_count"),
            ("num_attention_heads", "attention.head_count"),
            ("num_key_value_heads", "attention.head_count_kv"),
            ("head_dim", "attention.key_length"),
            ("max_position_embeddings", "context_length"),
            ("rms_norm_eps", "attention.layer_norm_rms_epsilon"),
            ("rope_theta", "rope.freq_base"),
        ] {
            if let Some(value) = key(name) {
                raw.insert(field.into(), value.clone());
            }
        }
        for (field, name) in [("bos_token_id", "bos"), ("eos_token_id", "eos"), ("pad_token_id", "padding")] {
            if let Some(id) = self.get(&format!("tokenizer.ggml.{name}_token_id")) {
                raw.insert(field.into(), id.clone());
            }
        }
        if !raw.contains_key("head_dim") {
            let count = |field: &str| raw.get(field).and_then(Value::as_u64).unwrap_or(0);
            let heads = count("num_attention_heads").max(1);
            raw.insert("head_dim".into(), json!(count("hidden_size") / heads));
        }
        if family != Family::Qwen2 {
            raw.insert("attention_bias".into(), json!(self.shape("blk.0.attn_q.bias").is_some()));
        }
        if let Some(scaling) = self.rope_scaling(architecture, &raw)? {
            raw.insert("rope_scaling".into(), scaling);
        }
        // Text generation ends at the end of a turn too, which some files name apart.
        let turn = self.get("tokenizer.ggml.eot_token_id").map(|id| json!({"eos_token_id": id}));
        Config::from_json(&Value::Object(raw), turn.as_ref(), &self.origin())
    }

    fn rope_scaling(
        &self,
        architecture: &str,
        raw: &Map<String, Value>,
    ) -> Result<Option<Value>, ModelError> {
        let key = |name: &str| self.get(&format!("{architecture}.rope.scaling.{name}"));
        if self.tensors.contains_key("rope_freqs.weight") {
            return self.llama3_scaling(raw).map(Some);
        }
        let kind = key("type").and_then(Value::as_str).unwrap_or("none");
        if kind == "none" {
            return Ok(None);
        }
        let mut scaling = Map::from_iter([("rope_type".to_owned(), json!(kind))]);
        for (field, name) in [
            ("factor", "factor"),
            ("original_max_position_embeddings", "original_context_length"),
            ("beta_fast", "yarn_beta_fast"),
            ("beta_slow", "yarn_beta_slow"),
        ] {
            if let Some(value) = key(name) {
                scaling.insert(field.into(), value.clone());
            }
        }
        Ok(Some(Value::Object(scaling)))
    }

    /// Llama 3's scaling is stored as the factors themselves; its parameters are found again.
    fn llama3_scaling(&self, raw: &Map<String, Value>) -> Result<Value, ModelError> {
        let factors = self.values("rope_freqs.weight")?;
        let number = |field: &str| raw.get(field).and_then(Value::as_f64).unwrap_or(0.0);
        let (theta, head_dim) = (number("rope_theta"), number("head_dim") as usize);
        let factor = factors.iter().copied().fold(1.0f32, f32::max);
        let scaling = RopeScaling::Llama3 {
            factor: f64::from(factor),
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original: 8192.0,
        };
        let plain = Rope { theta, scaling: RopeScaling::None }.inverse_frequencies(head_dim);
        let scaled = Rope { theta, scaling }.inverse_frequencies(head_dim);
        let close = |((plain, scaled), &factor): ((&f64, &f64), &f32)| {
            (plain / scaled / f64::from(factor) - 1.0).abs() < 1e-3
        };
        if factors.len() != plain.len() || !plain.iter().zip(&scaled).zip(&factors).all(close) {
            return Err(self.error("`rope_freqs.weight` holds a rotary scaling other than Llama 3's"));
        }
        Ok(json!({
            "rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192
        }))
    }

    /// A tensor's values in f32.
    fn values(&self, name: &str) -> Result<Vec<f32>, ModelError> {
        let place = self.tensors.get(name).ok_or_else(|| self.error(format!("no tensor `{name}`")))?;
        let kind = GgmlType::from_id(place.kind).ok_or_else(|| {
            self.error(format!(
                "tensor `{name}` is quantised as ggml type {}; supported are {}",
                place.kind,
                GgmlType::NAMES
            ))
        })?;
        let (elements, size) = kind.block();
        let count = place.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d as usize));
        let count = count.filter(|n| n % elements == 0);
        let count =
            count.ok_or_else(|| self.error(format!("tensor `{name}` is not made of whole blocks")))?;
        let bytes = (count / elements)
            .checked_mul(size)
            .and_then(|length| self.map.get(place.start..place.start.checked_add(length)?))
            .ok_or_else(|| {
                self.error(format!("tensor `{name}` lies beyond the end; the file is only partly there"))
            })?;
        Ok(kind.dequantise(bytes))
    }

    /// All tensors that the configuration names, dequantised.
    ///
    /// # Errors
    /// When a tensor is missing, of another shape, or of a type that is not read.
    pub fn weights(&self, config: &Config, kind: Kind, device: Device) -> Result<Weights, ModelError> {
        let mut weights = Weights::new();
        for (name, expected) in config.tensors() {
            let Some(stored) = gguf_name(&name) else { return Err(ModelError::MissingTensor { name }) };
            let Some(place) = self.tensors.get(&stored) else {
                return Err(ModelError::MissingTensor { name });
            };
            if place.shape != expected {
                return Err(ModelError::Shape { name, expected, found: place.shape.clone() });
            }
            let mut tensor = Tensor::from_slice(&self.values(&stored)?).f_view(expected.as_slice())?;
            if config.family == Family::Llama {
                if name.contains(".q_proj.") {
                    tensor = undo_interleaving(&tensor, config.heads)?;
                } else if name.contains(".k_proj.") {
                    tensor = undo_interleaving(&tensor, config.kv_heads)?;
                }
            }
            weights.insert(name, tensor.f_to_kind(kind)?.f_to_device(device)?);
        }
        Ok(weights)
    }
}

/// Rows `(head, i, half)` back to `(head, half, i)`.
fn undo_interleaving(tensor: &Tensor, heads: usize) -> Result<Tensor, ModelError> {
    let size = tensor.size();
    let rows = tensor.f_view([heads as i64, size[0] / heads as i64 / 2, 2, -1])?;
    Ok(rows.f_transpose(1, 2)?.f_reshape(size.as_slice())?)
}

/// The name of a Hugging Face tensor in GGUF.
fn gguf_name(name: &str) -> Option<String> {
    match name {
        "model.embed_tokens.weight" => return Some("token_embd.weight".into()),
        "model.norm.weight" => return Some("output_norm.weight".into()),
        "lm_head.weight" => return Some("output.weight".into()),
        _ => {}
    }
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let (module, parameter) = rest.rsplit_once('.')?;
    let module = match module {
        "input_layernorm" => "attn_norm",
        "post_attention_layernorm" => "ffn_norm",
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "self_attn.q_norm" => "attn_q_norm",
        "self_attn.k_norm" => "attn_k_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        _ => return None,
    };
    Some(format!("blk.{layer}.{module}.{parameter}"))
}

/// A cursor over the file; every read is checked.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(length).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| {
            format!(
                "it ends in the middle of its header, at byte {}; the file is only partly there",
                self.bytes.len()
            )
        })?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    /// A count of things that each take at least one byte.
    fn count(&mut self) -> Result<usize, String> {
        let count = self.u64()?;
        let left = (self.bytes.len() - self.at) as u64;
        if count > left {
            Err(format!(
                "it counts {count} entries where {left} bytes are left; the file is damaged or only partly there"
            ))
        } else {
            Ok(count as usize)
        }
    }

    fn text(&mut self) -> Result<String, String> {
        let length = self.count()?;
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    fn value(&mut self, kind: u32, depth: usize) -> Result<Value, String> {
        Ok(match kind {
            0 => json!(self.array::<1>()?[0]),
            1 => json!(i8::from_le_bytes(self.array()?)),
            2 => json!(u16::from_le_bytes(self.array()?)),
            3 => json!(i16::from_le_bytes(self.array()?)),
            4 => json!(self.u32()?),
            5 => json!(i32::from_le_bytes(self.array()?)),
            6 => shortest(f32::from_le_bytes(self.array()?)),
            7 => json!(self.array::<1>()?[0] != 0),
            8 => json!(self.text()?),
            9 if depth < DEPTH => {
                let kind = self.u32()?;
                let count = self.count()?;
                let mut list = Vec::with_capacity(count);
                for _ in 0..count {
                    list.push(self.value(kind, depth + 1)?);
                }
                Value::Array(list)
            }
            10 => json!(self.u64()?),
            11 => json!(i64::from_le_bytes(self.array()?)),
            12 => json!(f64::from_le_bytes(self.array()?)),
            other => return Err(format!("metadata of the unknown type {other}")),
        })
    }
}

/// An f32 as the decimal a person would have written: 1e-5, not 9.999999747378752e-6.
fn shortest(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, |v| json!(v))
}

type Table = (BTreeMap<String, Value>, BTreeMap<String, Place>);

fn parse(bytes: &[u8]) -> Result<Table, String> {
    let mut reader = Reader { bytes, at: 0 };
    if reader.take(4).ok() != Some(b"GGUF".as_slice()) {
        return Err("it does not begin with the letters GGUF".into());
    }
    let version = reader.u32()?;
    if !(2..=3).contains(&version) {
        return Err(format!("its version is {version}; versions 2 and 3 are read"));
    }
    let (tensor_count, value_count) = (reader.count()?, reader.count()?);
    let mut metadata = BTreeMap::new();
    for _ in 0..value_count {
        let key = reader.text()?;
        let kind = reader.u32()?;
        let value = reader.value(kind, 0)?;
        metadata.insert(key, value);
    }
    let mut tensors = BTreeMap::new();
    for _ in 0..tensor_count {
        let name = reader.text()?;
        let rank = reader.u32()?;
        if rank > 8 {
            return Err(format!("tensor `{name}` has {rank} dimensions"));
        }
        let mut shape = Vec::with_capacity(rank as usize);
        for _ in 0..rank {
            let size = i64::try_from(reader.u64()?).map_err(|_| format!("tensor `{name}` is too large"))?;
            shape.push(size);
        }
        shape.reverse();
        let kind = reader.u32()?;
        let start = usize::try_from(reader.u64()?).map_err(|_| format!("tensor `{name}` lies too far"))?;
        tensors.insert(name, Place { shape, kind, start });
    }
    let alignment = metadata.get("general.alignment").and_then(Value::as_u64).unwrap_or(32).max(1);
    let data = reader.at.next_multiple_of(alignment as usize);
    for place in tensors.values_mut() {
        place.start = place.start.checked_add(data).ok_or("a tensor lies too far")?;
    }
    Ok((metadata, tensors))
}
