//! A model that is only read: the reference of a KL term, a teacher.

use crate::batch::to_list;
use crate::body::{hidden, pack};
use crate::head::Head;
use crate::layout::{Forest, Layout};
use crate::sample::TrainSample;
use crate::{SampleError, TrainError};
use tch::{Device, Kind, Tensor};
use whet_model::{Config, Decoder, Packed, Weights};

/// A decoder with its output layer, without gradients.
#[derive(Debug)]
pub struct Frozen {
    pub(crate) decoder: Decoder,
    /// `[V, H]`.
    pub(crate) head: Tensor,
}

impl Frozen {
    /// A model over `weights`, which it computes with in the kind and on the device that they have.
    ///
    /// # Errors
    /// When weights do not fit the configuration.
    pub fn new(config: &Config, weights: &Weights) -> Result<Frozen, TrainError> {
        let decoder = Decoder::new(config, weights)?;
        let name = if config.tied { "model.embed_tokens.weight" } else { "lm_head.weight" };
        // `Decoder::new` has checked that it is there.
        let head = weights.get(name).map(Tensor::detach).unwrap_or_default();
        Ok(Frozen { decoder, head })
    }

    /// Where it computes.
    pub fn device(&self) -> Device {
        self.head.device()
    }

    /// The kind it computes in.
    pub fn kind(&self) -> Kind {
        self.head.kind()
    }

    /// Log-probability of every trained token under the tempered distribution; 0 at the others.
    ///
    /// * `micro_batch_tokens`: token rows computed at once
    ///
    /// # Errors
    /// When a sample is malformed, or has a token that this model does not know.
    pub fn logprobs(
        &self,
        samples: &[TrainSample],
        temperature: f64,
        micro_batch_tokens: usize,
    ) -> Result<Vec<Vec<f32>>, TrainError> {
        check(samples, &self.decoder.config)?;
        logprobs(samples, micro_batch_tokens, self.device(), |packed, layout| {
            Ok(self.targets(packed, layout, temperature))
        })
    }

    /// Log-probabilities of the layout's targets, `[N]`.
    pub(crate) fn targets(&self, packed: &Packed, layout: &Layout, temperature: f64) -> Tensor {
        let hidden = hidden(&self.decoder, packed, layout);
        let _guard = tch::no_grad_guard();
        Head::new(&self.head, temperature, layout).forward(&hidden).targets
    }
}

/// Refuses what cannot be computed, before anything is.
pub(crate) fn check(samples: &[TrainSample], config: &Config) -> Result<(), SampleError> {
    samples.iter().try_for_each(|s| s.check(config.vocab_size as i64))
}

/// One number per trained token, by sample and token, 0 at the others; `compute` yields those of a layout's targets.
pub(crate) fn logprobs(
    samples: &[TrainSample],
    micro_batch_tokens: usize,
    device: Device,
    compute: impl Fn(&Packed, &Layout) -> Result<Tensor, TrainError>,
) -> Result<Vec<Vec<f32>>, TrainError> {
    let mut lists: Vec<Vec<f32>> = samples.iter().map(|s| vec![0.0; s.tokens.len()]).collect();
    let trained: Vec<usize> = (0..samples.len()).filter(|&s| samples[s].trained() > 0).collect();
    let forest = Forest::new(samples, &trained);
    for part in forest.cut(samples, micro_batch_tokens) {
        let layout = Layout::new(samples, &forest, part);
        let values = to_list(&compute(&pack(&layout, device)?, &layout)?)?;
        for (target, value) in layout.targets.iter().zip(values) {
            lists[target.sample][target.position] = value as f32;
        }
    }
    Ok(lists)
}
