//! A model that is only read: the reference of a KL term, a teacher.

use crate::batch::to_list;
use crate::body::pack;
use crate::head::Head;
use crate::kernels::{self, Kernels};
use crate::layout::{Forest, Layout};
use crate::sample::TrainSample;
use crate::{SampleError, TrainError};
use tch::{Device, Kind, Tensor};
use whet_model::{Config, Decoder, Packed, Weights};

/// A decoder with its output layer, without gradients.
pub struct Frozen {
    config: Config,
    body: Body,
    /// `[V, H]`.
    pub(crate) head: Tensor,
}

/// What forward is done by.
enum Body {
    Kernels(Box<Kernels>),
    Decoder(Box<Decoder>),
}

impl Frozen {
    /// A model over `weights`, in the kind and on the device that they have. On CPUs it computes with a copy of
    /// them, elsewhere with the tensors themselves.
    ///
    /// # Errors
    /// When weights do not fit the configuration.
    pub fn new(config: &Config, weights: &Weights) -> Result<Frozen, TrainError> {
        let decoder = Decoder::new(config, weights)?;
        let list: Vec<(String, Tensor)> = weights.iter().map(|(n, t)| (n.clone(), t.detach())).collect();
        let body = match Kernels::new(config, &list)? {
            Some(kernels) => Body::Kernels(Box::new(kernels)),
            None => Body::Decoder(Box::new(decoder)),
        };
        Ok(Frozen { config: config.clone(), body, head: head(config, weights) })
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
        check(samples, &self.config)?;
        logprobs(samples, micro_batch_tokens, self.device(), |packed, layout| {
            self.targets(packed, layout, temperature)
        })
    }

    /// Log-probabilities of the layout's targets, `[N]`.
    pub(crate) fn targets(
        &self,
        packed: &Packed,
        layout: &Layout,
        temperature: f64,
    ) -> Result<Tensor, TrainError> {
        let hidden = self.hidden(packed, layout)?;
        let _guard = tch::no_grad_guard();
        Ok(Head::new(&self.head, temperature, layout).forward(&hidden).targets)
    }

    /// The hidden states at the layout's predicting rows, `[R, H]`.
    pub(crate) fn hidden(&self, packed: &Packed, layout: &Layout) -> Result<Tensor, TrainError> {
        match &self.body {
            Body::Kernels(kernels) => kernels.hidden(packed, layout),
            Body::Decoder(decoder) => Ok(kernels::hidden(decoder, packed, layout)),
        }
    }
}

/// The output layer of checked weights, `[V, H]`.
pub(crate) fn head(config: &Config, weights: &Weights) -> Tensor {
    let name = if config.tied { "model.embed_tokens.weight" } else { "lm_head.weight" };
    weights.get(name).map(Tensor::detach).unwrap_or_default()
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
