//! Forward passes over [`Packed`] rows as the rollout engine computes them, for those who train or score.

use super::tree::TreeCache;
use super::{CpuDecoder, check, threads};
use crate::config::Config;
use crate::error::ModelError;
use crate::packed::Packed;
use half::bf16;
use std::sync::{Arc, OnceLock};
use tch::{Device, Kind, Tensor};
use whet_native::gemm::{PackedMatrix, linear};
use whet_native::{Isa, Number, view};

/// A decoder without gradients, in the kinds that the kernels know.
pub struct CpuForward {
    config: Config,
    decoder: Decoder,
}

enum Decoder {
    Single(CpuDecoder<f32>),
    Brain(CpuDecoder<bf16>),
}

impl CpuForward {
    /// A decoder whose weights are zero; `None` where there are no kernels: on other devices and in other kinds.
    ///
    /// # Errors
    /// When its threads cannot be started.
    pub fn new(config: &Config, kind: Kind, device: Device) -> Result<Option<CpuForward>, ModelError> {
        let decoder = match (device, kind) {
            (Device::Cpu, Kind::Float) => Decoder::Single(CpuDecoder::new(config, pool()?)),
            (Device::Cpu, Kind::BFloat16) => Decoder::Brain(CpuDecoder::new(config, pool()?)),
            _ => return Ok(None),
        };
        Ok(Some(CpuForward { config: config.clone(), decoder }))
    }

    /// Copies all weights, by Hugging Face name.
    ///
    /// # Errors
    /// When they are not those of the configuration.
    pub fn set_weights(&mut self, tensors: &[(String, Tensor)]) -> Result<(), ModelError> {
        check(&self.config, tensors).map_err(ModelError::Kernels)?;
        match &mut self.decoder {
            Decoder::Single(decoder) => decoder.set_weights(tensors),
            Decoder::Brain(decoder) => decoder.set_weights(tensors),
        }
    }

    /// Runs all layers. Returns the residual stream before every layer and after the last, `[T, H]` f32 each, or
    /// nothing if it is not to be kept.
    ///
    /// # Errors
    /// When a token is outside the vocabulary.
    pub fn layers(&mut self, packed: &Packed, keep: bool) -> Result<Vec<Tensor>, ModelError> {
        match &mut self.decoder {
            Decoder::Single(decoder) => layers(decoder, &self.config, packed, keep),
            Decoder::Brain(decoder) => layers(decoder, &self.config, packed, keep),
        }
    }

    /// What the output layer reads of some rows of the last pass, `[R, H]` in the weights' kind.
    pub fn normed(&mut self, rows: &[i64]) -> Tensor {
        let rows: Vec<usize> = rows.iter().map(|&row| row as usize).collect();
        let normed = match &mut self.decoder {
            Decoder::Single(decoder) => Tensor::from_slice(decoder.normed(&rows)),
            Decoder::Brain(decoder) => {
                // By way of f32, which holds each exactly: tch takes bf16 values for those of f16.
                let wide: Vec<f32> = decoder.normed(&rows).iter().map(|x| x.to_f32()).collect();
                Tensor::from_slice(&wide).to_kind(Kind::BFloat16)
            }
        };
        normed.view([rows.len() as i64, -1])
    }
}

/// `x W^T` in f32 for `x: [n, k]` and `weight: [m, k]`, each row by itself, as the engine computes logits; `None` where
/// there are no kernels: on other devices and in other kinds.
///
/// # Errors
/// When the threads cannot be started.
pub fn products(x: &Tensor, weight: &Tensor) -> Result<Option<Tensor>, ModelError> {
    if x.device() != Device::Cpu || x.kind() != weight.kind() {
        return Ok(None);
    }
    match x.kind() {
        Kind::Float => product::<f32>(x, weight).map(Some),
        Kind::BFloat16 => product::<bf16>(x, weight).map(Some),
        _ => Ok(None),
    }
}

fn product<T: Number + view::Element>(x: &Tensor, weight: &Tensor) -> Result<Tensor, ModelError> {
    let failed = |e: view::ViewError| ModelError::Kernels(e.to_string());
    let (x, weight) = (x.detach().contiguous(), weight.detach().contiguous());
    let (m, k) = weight.size2()?;
    let mut packed = PackedMatrix::<T>::zeros(m as usize, k as usize);
    packed.set_rows(0, view::slice(&weight).map_err(failed)?);
    let mut out = Tensor::empty([x.size()[0], m], (Kind::Float, Device::Cpu));
    let x: &[T] = view::slice(&x).map_err(failed)?;
    let to: &mut [f32] = view::slice_mut(&mut out).map_err(failed)?;
    pool()?.install(|| linear(Isa::detect(), x, &packed, None, to));
    Ok(out)
}

/// The threads that all these share; as many as libtorch has.
fn pool() -> Result<Arc<rayon::ThreadPool>, ModelError> {
    static POOL: OnceLock<Arc<rayon::ThreadPool>> = OnceLock::new();
    if let Some(pool) = POOL.get() {
        return Ok(pool.clone());
    }
    let pool = threads(tch::get_num_threads().max(1) as usize)?;
    Ok(POOL.get_or_init(|| pool).clone())
}

fn layers<T: Number + view::Element>(
    decoder: &mut CpuDecoder<T>,
    config: &Config,
    packed: &Packed,
    keep: bool,
) -> Result<Vec<Tensor>, ModelError> {
    let list = |t: &Tensor| -> Result<Vec<i64>, ModelError> { Ok(Vec::try_from(t)?) };
    let ids = list(&packed.ids)?;
    if let Some(id) = ids.iter().find(|&&id| id < 0 || id >= config.vocab_size as i64) {
        return Err(ModelError::Packed(format!("token {id} is not in the vocabulary")));
    }
    let tokens: Vec<u32> = ids.iter().map(|&id| id as u32).collect();
    let positions: Vec<usize> = list(&packed.positions)?.iter().map(|&p| p as usize).collect();
    let mut cache = TreeCache::new(packed, config.kv_heads, config.head_dim);
    let mut kept = Vec::new();
    decoder.layers(&tokens, &positions, &mut cache, false, |x| {
        if keep {
            kept.push(Tensor::from_slice(x).view([tokens.len() as i64, -1]));
        }
    })?;
    Ok(kept)
}
