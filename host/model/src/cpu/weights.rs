//! A decoder's weights as the CPU's kernels read them: packed, queries, keys and values as one matrix,
//! gate and up as one. Filled by Hugging Face name, so an update is a copy into place.

use crate::config::Config;
use crate::error::ModelError;
use tch::{Device, Kind, Tensor};
use whet_native::gemm::PackedMatrix;
use whet_native::{Number, view};

pub(super) struct Layer<T> {
    pub input_norm: Vec<T>,
    pub qkv: PackedMatrix<T>,
    pub qkv_bias: Option<Vec<T>>,
    pub qk_norm: Option<[Vec<T>; 2]>,
    pub o: PackedMatrix<T>,
    pub o_bias: Option<Vec<T>>,
    pub post_norm: Vec<T>,
    pub gate_up: PackedMatrix<T>,
    pub gate_up_bias: Option<Vec<T>>,
    pub down: PackedMatrix<T>,
    pub down_bias: Option<Vec<T>>,
}

/// All weights of a decoder.
pub struct CpuWeights<T> {
    pub(super) embedding: PackedMatrix<T>,
    pub(super) layers: Vec<Layer<T>>,
    pub(super) norm: Vec<T>,
    /// Absent where the embedding is the output too.
    pub(super) head: Option<PackedMatrix<T>>,
}

/// Where a named tensor goes.
enum Place<'a, T> {
    Rows(&'a mut PackedMatrix<T>, usize),
    Values(&'a mut [T]),
}

impl<T: Number + view::Element> CpuWeights<T> {
    /// All zero.
    pub(super) fn zeros(c: &Config) -> Self {
        let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
        let values = |n: usize| vec![T::default(); n];
        let bias = |given: bool, n: usize| given.then(|| values(n));
        let layer = || Layer {
            input_norm: values(c.hidden_size),
            qkv: PackedMatrix::zeros(q + 2 * kv, c.hidden_size),
            qkv_bias: bias(c.qkv_bias, q + 2 * kv),
            qk_norm: c.qk_norm.then(|| [values(c.head_dim), values(c.head_dim)]),
            o: PackedMatrix::zeros(c.hidden_size, q),
            o_bias: bias(c.o_bias, c.hidden_size),
            post_norm: values(c.hidden_size),
            gate_up: PackedMatrix::zeros_gated(c.intermediate_size, c.hidden_size),
            gate_up_bias: bias(c.mlp_bias, 2 * c.intermediate_size),
            down: PackedMatrix::zeros(c.hidden_size, c.intermediate_size),
            down_bias: bias(c.mlp_bias, c.hidden_size),
        };
        CpuWeights {
            embedding: PackedMatrix::zeros(c.vocab_size, c.hidden_size),
            layers: (0..c.layers).map(|_| layer()).collect(),
            norm: values(c.hidden_size),
            head: (!c.tied).then(|| PackedMatrix::zeros(c.vocab_size, c.hidden_size)),
        }
    }

    /// The matrix that gives logits.
    pub(super) fn output(&self) -> &PackedMatrix<T> {
        self.head.as_ref().unwrap_or(&self.embedding)
    }

    fn place(&mut self, c: &Config, name: &str) -> Option<Place<'_, T>> {
        use Place::{Rows, Values};
        let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
        match name {
            "model.embed_tokens.weight" => return Some(Rows(&mut self.embedding, 0)),
            "model.norm.weight" => return Some(Values(&mut self.norm)),
            "lm_head.weight" => return self.head.as_mut().map(|head| Rows(head, 0)),
            _ => {}
        }
        let (index, part) = name.strip_prefix("model.layers.")?.split_once('.')?;
        let layer = self.layers.get_mut(index.parse::<usize>().ok()?)?;
        let wide = c.intermediate_size;
        fn some<T>(bias: &mut Option<Vec<T>>, from: usize, n: usize) -> Option<Place<'_, T>> {
            bias.as_mut().and_then(|b| b.get_mut(from..from + n)).map(Place::Values)
        }
        Some(match part {
            "input_layernorm.weight" => Values(&mut layer.input_norm),
            "post_attention_layernorm.weight" => Values(&mut layer.post_norm),
            "self_attn.q_norm.weight" => Values(&mut layer.qk_norm.as_mut()?[0]),
            "self_attn.k_norm.weight" => Values(&mut layer.qk_norm.as_mut()?[1]),
            "self_attn.q_proj.weight" => Rows(&mut layer.qkv, 0),
            "self_attn.k_proj.weight" => Rows(&mut layer.qkv, q),
            "self_attn.v_proj.weight" => Rows(&mut layer.qkv, q + kv),
            "self_attn.o_proj.weight" => Rows(&mut layer.o, 0),
            "mlp.gate_proj.weight" => Rows(&mut layer.gate_up, 0),
            "mlp.up_proj.weight" => Rows(&mut layer.gate_up, wide),
            "mlp.down_proj.weight" => Rows(&mut layer.down, 0),
            "self_attn.q_proj.bias" => some(&mut layer.qkv_bias, 0, q)?,
            "self_attn.k_proj.bias" => some(&mut layer.qkv_bias, q, kv)?,
            "self_attn.v_proj.bias" => some(&mut layer.qkv_bias, q + kv, kv)?,
            "self_attn.o_proj.bias" => some(&mut layer.o_bias, 0, c.hidden_size)?,
            "mlp.gate_proj.bias" => some(&mut layer.gate_up_bias, 0, wide)?,
            "mlp.up_proj.bias" => some(&mut layer.gate_up_bias, wide, wide)?,
            "mlp.down_proj.bias" => some(&mut layer.down_bias, 0, c.hidden_size)?,
            _ => return None,
        })
    }

    /// Copies tensors that [`check`] has passed into place.
    pub(super) fn set(&mut self, c: &Config, tensors: &[(String, Tensor)]) -> Result<(), ModelError> {
        for (name, tensor) in tensors {
            let tensor =
                tensor.detach().to_device(Device::Cpu).to_kind(<T as view::Element>::KIND).contiguous();
            let values: &[T] =
                view::slice(&tensor).map_err(|e| ModelError::Kernels(format!("tensor `{name}`: {e}")))?;
            match self.place(c, name) {
                Some(Place::Rows(matrix, first)) => matrix.set_rows(first, values),
                Some(Place::Values(place)) => place.copy_from_slice(values),
                None => {
                    return Err(ModelError::Kernels(format!("tensor `{name}` has no place in the decoder")));
                }
            }
        }
        Ok(())
    }
}

/// Every tensor of the model once, in its shape, in numbers that can be converted.
///
/// # Errors
/// Which tensor is wrong and why.
pub fn check(c: &Config, tensors: &[(String, Tensor)]) -> Result<(), String> {
    let mut expected: std::collections::BTreeMap<String, Vec<i64>> = c.tensors().into_iter().collect();
    for (name, tensor) in tensors {
        let Some(shape) = expected.remove(name) else {
            return Err(format!("`{name}` is unknown to this model, or given twice"));
        };
        if tensor.size() != shape {
            return Err(format!("`{name}` has the shape {:?}, not {shape:?}", tensor.size()));
        }
        if !matches!(tensor.kind(), Kind::Float | Kind::Double | Kind::BFloat16 | Kind::Half) {
            return Err(format!("`{name}` holds {:?}, no floating-point numbers", tensor.kind()));
        }
    }
    match expected.len() {
        0 => Ok(()),
        n => Err(format!(
            "{n} tensors are missing, among them `{}`",
            expected.keys().next().map_or("", |s| s.as_str())
        )),
    }
}
