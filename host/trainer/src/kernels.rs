//! The rollout engine's own forward pass in the trainer's hands.
//!
//! Two programs that round at the same places still disagree where their sums run in another order:
//! in bf16 a rare token's log-probability by more than one. So on CPUs there is one program for both.

use crate::TrainError;
use crate::layout::Layout;
use std::cell::RefCell;
use tch::Tensor;
use whet_model::cpu::CpuForward;
use whet_model::{Config, Decoder, Packed};

/// A decoder without gradients by the CPU's kernels, which hold a copy of its weights.
pub(crate) struct Kernels(RefCell<CpuForward>);

impl Kernels {
    /// Kernels over `weights`, which may hold more than the configuration names; `None` where there are no kernels for
    /// their kind and device.
    pub fn new(config: &Config, weights: &[(String, Tensor)]) -> Result<Option<Kernels>, TrainError> {
        let Some((_, first)) = weights.first() else { return Ok(None) };
        let Some(forward) = CpuForward::new(config, first.kind(), first.device())? else { return Ok(None) };
        let kernels = Kernels(RefCell::new(forward));
        kernels.set(config, weights)?;
        Ok(Some(kernels))
    }

    /// Replaces the weights.
    pub fn set(&self, config: &Config, weights: &[(String, Tensor)]) -> Result<(), TrainError> {
        let known: Vec<String> = config.tensors().into_iter().map(|(name, _)| name).collect();
        let named = weights.iter().filter(|(name, _)| known.contains(name));
        let tensors: Vec<(String, Tensor)> = named.map(|(n, t)| (n.clone(), t.detach())).collect();
        Ok(self.0.borrow_mut().set_weights(&tensors)?)
    }

    /// The residual stream before every layer and after the last, `[T, H]` each, and what a head reads at the
    /// layout's predicting rows, `[R, H]`.
    pub fn layers(&self, packed: &Packed, layout: &Layout) -> Result<(Vec<Tensor>, Tensor), TrainError> {
        let mut forward = self.0.borrow_mut();
        let stream = forward.layers(packed, true)?;
        Ok((stream, forward.normed(&layout.rows)))
    }

    /// What a head reads alone.
    pub fn hidden(&self, packed: &Packed, layout: &Layout) -> Result<Tensor, TrainError> {
        let mut forward = self.0.borrow_mut();
        forward.layers(packed, false)?;
        Ok(forward.normed(&layout.rows))
    }
}

/// The hidden states at the layout's predicting rows, `[R, H]`, without a graph.
pub(crate) fn hidden(decoder: &Decoder, packed: &Packed, layout: &Layout) -> Tensor {
    let _guard = tch::no_grad_guard();
    let embedded = decoder.embed(&packed.ids);
    let x = (0..decoder.config.layers).fold(embedded, |x, i| decoder.layer(i, &x, packed));
    let rows = Tensor::from_slice(&layout.rows).to_device(x.device());
    decoder.norm(&x.index_select(0, &rows))
}
