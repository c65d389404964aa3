//! The decoder of Llama, Qwen2 and Qwen3, in plain tensors: embed, layers, norm, logits.
//!
//! One function per step, so that a trainer can run a layer at a time and recompute it in backward.
//! All mathematics is in the tensors' own kind (f32, bf16, f64), but for the residual stream, which is in at least f32, and gradients are the caller's
//! affair: the decoder holds handles to the caller's tensors, never copies.

use crate::attention::attention;
use crate::config::Config;
use crate::error::ModelError;
use crate::packed::Packed;
use std::collections::BTreeMap;
use tch::{Kind, Tensor};

/// Tensors by Hugging Face name; `lm_head.weight` is absent where the embedding is the output too.
pub type Weights = BTreeMap<String, Tensor>;

/// Low-rank adapters beside linear modules: `y += scale * (x A^T) B^T`.
#[derive(Debug)]
pub struct Lora {
    /// `alpha / r`.
    pub scale: f64,
    /// By Hugging Face module name (`model.layers.0.self_attn.q_proj`): `A [r, in]` and `B [out, r]`.
    pub adapters: BTreeMap<String, (Tensor, Tensor)>,
}

/// A linear module with what belongs to it.
#[derive(Debug)]
struct Linear {
    name: String,
    weight: Tensor,
    bias: Option<Tensor>,
    adapter: Option<(Tensor, Tensor, f64)>,
}

impl Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = x.linear(&self.weight, self.bias.as_ref());
        match &self.adapter {
            None => y,
            Some((a, b, scale)) => y + x.linear(a, None::<&Tensor>).linear(b, None::<&Tensor>) * *scale,
        }
    }
}

#[derive(Debug)]
struct Layer {
    input_norm: Tensor,
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    qk_norm: Option<(Tensor, Tensor)>,
    post_norm: Tensor,
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl Layer {
    fn linears(&mut self) -> [&mut Linear; 7] {
        [&mut self.q, &mut self.k, &mut self.v, &mut self.o, &mut self.gate, &mut self.up, &mut self.down]
    }
}

/// A decoder over the caller's tensors.
#[derive(Debug)]
pub struct Decoder {
    /// The shape.
    pub config: Config,
    embedding: Tensor,
    /// The padding token, whose row gets no gradient as an input: transformers' embedding has it so,
    /// and some models end turns with it. -1 where there is none.
    padding: i64,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Option<Tensor>,
}

impl Decoder {
    /// A decoder that computes with the given tensors themselves, so that their gradients are the
    /// caller's. Tensors the configuration does not name are ignored.
    ///
    /// # Errors
    /// When a tensor is missing or has another shape.
    pub fn new(config: &Config, weights: &Weights) -> Result<Decoder, ModelError> {
        check(config, weights)?;
        let get = |name: &str| {
            let tensor = weights.get(name).map(Tensor::shallow_clone);
            tensor.ok_or_else(|| ModelError::MissingTensor { name: name.to_owned() })
        };
        let layers = (0..config.layers).map(|i| {
            let prefix = format!("model.layers.{i}");
            let linear = |name: &str, bias: bool| -> Result<Linear, ModelError> {
                let name = format!("{prefix}.{name}");
                let bias = if bias { Some(get(&format!("{name}.bias"))?) } else { None };
                Ok(Linear { weight: get(&format!("{name}.weight"))?, bias, adapter: None, name })
            };
            let part = |name: &str| get(&format!("{prefix}.{name}.weight"));
            Ok(Layer {
                input_norm: part("input_layernorm")?,
                q: linear("self_attn.q_proj", config.qkv_bias)?,
                k: linear("self_attn.k_proj", config.qkv_bias)?,
                v: linear("self_attn.v_proj", config.qkv_bias)?,
                o: linear("self_attn.o_proj", config.o_bias)?,
                qk_norm: if config.qk_norm {
                    Some((part("self_attn.q_norm")?, part("self_attn.k_norm")?))
                } else {
                    None
                },
                post_norm: part("post_attention_layernorm")?,
                gate: linear("mlp.gate_proj", config.mlp_bias)?,
                up: linear("mlp.up_proj", config.mlp_bias)?,
                down: linear("mlp.down_proj", config.mlp_bias)?,
            })
        });
        Ok(Decoder {
            config: config.clone(),
            embedding: get("model.embed_tokens.weight")?,
            padding: padding(config),
            layers: layers.collect::<Result<_, ModelError>>()?,
            norm: get("model.norm.weight")?,
            head: if config.tied { None } else { Some(get("lm_head.weight")?) },
        })
    }

    /// Puts adapters beside linear modules of the layers.
    ///
    /// # Errors
    /// When an adapter names another module.
    pub fn with_lora(mut self, lora: &Lora) -> Result<Decoder, ModelError> {
        let mut unused: Vec<&String> = lora.adapters.keys().collect();
        for linear in self.layers.iter_mut().flat_map(Layer::linears) {
            if let Some((a, b)) = lora.adapters.get(&linear.name) {
                linear.adapter = Some((a.shallow_clone(), b.shallow_clone(), lora.scale));
                unused.retain(|name| **name != linear.name);
            }
        }
        match unused.first() {
            Some(name) => Err(ModelError::LoraModule { name: (*name).clone() }),
            None => Ok(self),
        }
    }

    /// The kind of weights, and of all activations but the residual stream.
    pub fn kind(&self) -> Kind {
        self.embedding.kind()
    }

    /// Rows of the embedding, where the residual stream begins: `[T]` i64 to `[T, H]` in at least f32.
    ///
    /// bf16 holds 8 bits, and every layer adds a little to what may be large: kept in f32, two ways to compute the
    /// same model differ by a fraction of what they would (transformers keeps it in the weights' kind).
    pub fn embed(&self, ids: &Tensor) -> Tensor {
        let rows = Tensor::embedding(&self.embedding, ids, self.padding, false, false);
        if self.kind() == Kind::Double { rows } else { rows.to_kind(Kind::Float) }
    }

    /// Decoder layer `i`, from residual stream to residual stream: `[T, H]` in at least f32.
    pub fn layer(&self, i: usize, x: &Tensor, packed: &Packed) -> Tensor {
        let layer = &self.layers[i];
        let eps = self.config.norm_eps;
        let x = x + self.self_attention(layer, &rms_norm(x, &layer.input_norm, eps), packed);
        let h = rms_norm(&x, &layer.post_norm, eps);
        let gated = layer.gate.forward(&h).silu() * layer.up.forward(&h);
        x + layer.down.forward(&gated)
    }

    fn self_attention(&self, layer: &Layer, h: &Tensor, packed: &Packed) -> Tensor {
        let d = self.config.head_dim as i64;
        let [q, k, v] = [&layer.q, &layer.k, &layer.v].map(|linear| linear.forward(h));
        let [mut q, mut k, v] = [q, k, v].map(|t| t.view([t.size()[0], -1, d]));
        if let Some((q_norm, k_norm)) = &layer.qk_norm {
            q = rms_norm(&q, q_norm, self.config.norm_eps);
            k = rms_norm(&k, k_norm, self.config.norm_eps);
        }
        let (cos, sin) = packed.tables(&self.config.rope, self.config.head_dim, h.kind());
        let [q, k] = [q, k].map(|t| rotate(&t, &cos, &sin));
        layer.o.forward(&attention(&q, &k, &v, packed))
    }

    /// The final norm, `[T, H]`: from the residual stream to what the output layer reads, in the weights' kind.
    pub fn norm(&self, x: &Tensor) -> Tensor {
        rms_norm(x, &self.norm, self.config.norm_eps)
    }

    /// Logits over the vocabulary: `[N, H]` to `[N, V]`.
    pub fn logits(&self, h: &Tensor) -> Tensor {
        h.linear(self.head.as_ref().unwrap_or(&self.embedding), None::<&Tensor>)
    }

    /// The hidden states that [`Decoder::logits`] takes: embed, all layers, final norm; `[T, H]`.
    pub fn hidden(&self, packed: &Packed) -> Tensor {
        let embedded = self.embed(&packed.ids);
        let x = (0..self.layers.len()).fold(embedded, |x, i| self.layer(i, &x, packed));
        self.norm(&x)
    }
}

fn padding(config: &Config) -> i64 {
    let id = config.raw.get("pad_token_id").and_then(serde_json::Value::as_i64);
    id.filter(|id| (0..config.vocab_size as i64).contains(id)).unwrap_or(-1)
}

/// Every tensor of the configuration is there, in its shape.
pub(crate) fn check(config: &Config, weights: &Weights) -> Result<(), ModelError> {
    for (name, expected) in config.tensors() {
        let Some(tensor) = weights.get(&name) else { return Err(ModelError::MissingTensor { name }) };
        let found = tensor.size();
        if found != expected {
            return Err(ModelError::Shape { name, expected, found });
        }
    }
    Ok(())
}

/// RMSNorm over the last dimension: normalised in at least f32, cast to the weight's kind, then times
/// the weight, which is the order that rounds as transformers does.
fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Tensor {
    let kind = weight.kind();
    let wide = if kind == Kind::Double { x.shallow_clone() } else { x.to_kind(Kind::Float) };
    let scale = (wide.square().mean_dim(-1, true, None::<Kind>) + eps).rsqrt();
    (wide * scale).to_kind(kind) * weight
}

/// Rotary embedding of `[T, heads, d]` with tables of [`crate::rope::Rope::tables`].
fn rotate(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Tensor {
    let half = x.size()[2] / 2;
    (x * cos).addcmul(&x.roll([half], [-1]), sin)
}
