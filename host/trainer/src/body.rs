//! A decoder in training: its layers forward and backward, whatever stands on top of them.
//!
//! Backward runs a layer at a time (a vector-Jacobian product per layer) rather than over one
//! graph. So gradients of a layer are added to the full-precision sums and freed at once, a layer's
//! activations go as soon as they were used, and checkpointing is one line: keep a layer's input
//! alone and compute it again. On CPUs forward is the rollout engine's own ([`whet_model::cpu`]), so that
//! trainer and rollout agree on every log-probability; it has no graph, so layers are computed again in
//! backward there. Nothing here knows a loss, nor what a head makes of the hidden states.

use crate::kernels::{self, Kernels};
use crate::layout::Layout;
use crate::metrics::StepMetrics;
use crate::optimiser::{self, AdamW, Parameter, Schedule};
use crate::trainer::{Start, TrainOptions};
use crate::{TrainError, checkpoint, lora};
use std::cell::Cell;
use std::path::Path;
use std::time::Instant;
use tch::{Device, Tensor};
use whet_model::{Config, Decoder, Packed, Weights};

/// A decoder, what is trained of it and of its head.
pub(crate) struct Body {
    decoder: Decoder,
    pub parameters: Vec<Parameter>,
    parts: Parts,
    /// The tensors it computes with, by Hugging Face name, without adapters.
    weights: Weights,
    /// The scale of its adapters, where those are what is trained.
    lora: Option<f64>,
    /// Forward, where there are kernels for it.
    kernels: Option<Kernels>,
    /// Whether weights have changed since the kernels got them.
    stale: Cell<bool>,
    device: Device,
    /// Keep only the inputs of layers for backward.
    recompute: bool,
}

/// Which parameters belong to which part of the model, as indices.
#[derive(Default)]
struct Parts {
    embedding: Option<usize>,
    layers: Vec<Vec<usize>>,
    norm: Option<usize>,
    head: Option<usize>,
}

/// The forward pass of a micro-batch, as far as backward needs it.
pub(crate) struct Pass {
    packed: Packed,
    tape: Tape,
    /// The predicting rows among all.
    rows: Tensor,
    /// Output of the last layer at these rows, where the graph of `normed` begins.
    last: Tensor,
    normed: Tensor,
    /// The values of `normed`, by whom forward was done.
    hidden: Tensor,
}

impl Pass {
    /// What a head reads: one row per predicting row of the layout, `[R, H]`, without a graph.
    pub fn hidden(&self) -> Tensor {
        self.hidden.shallow_clone()
    }

    /// The rows of the micro-batch.
    pub fn packed(&self) -> &Packed {
        &self.packed
    }
}

impl Body {
    /// A body over a start, and over parameters of its head that are not among the decoder's.
    pub fn new(start: Start, head: Vec<Parameter>, options: &TrainOptions) -> Result<Body, TrainError> {
        let Start { mut parameters, decoder, weights, .. } = start;
        parameters.extend(head);
        let mut body = Body {
            parts: Parts::new(&decoder.config, &parameters),
            decoder,
            parameters,
            weights,
            lora: options.lora.as_ref().map(lora::LoraOptions::scale),
            kernels: None,
            stale: Cell::new(false),
            device: options.device,
            recompute: options.gradient_checkpointing,
        };
        body.kernels = Kernels::new(&body.decoder.config, &body.weights())?;
        Ok(body)
    }

    /// The decoder's shape.
    pub fn config(&self) -> &Config {
        &self.decoder.config
    }

    /// Runs the layers over a micro-batch.
    pub fn forward(&self, layout: &Layout) -> Result<Pass, TrainError> {
        let packed = pack(layout, self.device)?;
        let rows = Tensor::from_slice(&layout.rows).to_device(self.device);
        let (tape, hidden) = match self.kernels()? {
            Some(kernels) => {
                let (stream, hidden) = kernels.layers(&packed, layout)?;
                (Tape::of_stream(stream), Some(hidden))
            }
            None => (Tape::record(&self.decoder, &packed, self.recompute), None),
        };
        let last = leaf(&tape.output.index_select(0, &rows));
        let normed = self.decoder.norm(&last);
        let hidden = hidden.unwrap_or_else(|| normed.detach());
        Ok(Pass { packed, tape, rows, last, normed, hidden })
    }

    /// The hidden states at the layout's predicting rows, `[R, H]`, for nobody to go back through.
    pub fn hidden(&self, packed: &Packed, layout: &Layout) -> Result<Tensor, TrainError> {
        match self.kernels()? {
            Some(kernels) => kernels.hidden(packed, layout),
            None => Ok(kernels::hidden(&self.decoder, packed, layout)),
        }
    }

    /// All weights of the decoder in Hugging Face names and the compute kind, adapters merged. Tensors that training does
    /// not merge are handles to the body's own.
    pub fn weights(&self) -> Vec<(String, Tensor)> {
        let master =
            |name: &str| self.parameters.iter().find(|p| p.name == name).map(|p| p.master.shallow_clone());
        match self.lora {
            None => self.weights.iter().map(|(name, t)| (name.clone(), t.detach())).collect(),
            Some(scale) => lora::merge_all(&self.weights, scale, master),
        }
    }

    /// Reads masters and moments that [`checkpoint::save`] wrote; returns the number of updates behind them.
    pub fn load(&mut self, dir: &Path) -> Result<u64, TrainError> {
        let version = checkpoint::load(dir, &mut self.parameters)?;
        self.stale.set(true);
        Ok(version)
    }

    /// The kernels, with the weights as they are now.
    fn kernels(&self) -> Result<Option<&Kernels>, TrainError> {
        if let Some(kernels) = &self.kernels
            && self.stale.get()
        {
            kernels.set(&self.decoder.config, &self.weights())?;
            self.stale.set(false);
        }
        Ok(self.kernels.as_ref())
    }

    /// Adds the gradient of every parameter below the head; `grad` is that at [`Pass::hidden`].
    pub fn backward(&mut self, pass: Pass, grad: &Tensor) -> Result<(), TrainError> {
        let Pass { packed, mut tape, rows, last, normed, .. } = pass;
        let norm: Vec<usize> = self.parts.norm.into_iter().collect();
        let grad = self.part(&normed, grad, &last, &norm)?;
        drop(normed);
        let mut grad = tape.output.zeros_like().index_add(0, &rows, &grad);
        for layer in (0..self.parts.layers.len()).rev() {
            let (input, output) = tape.layer(&self.decoder, layer, &packed);
            let parameters = std::mem::take(&mut self.parts.layers[layer]);
            let result = self.part(&output, &grad, &input, &parameters);
            self.parts.layers[layer] = parameters;
            grad = result?;
        }
        if let Some(embedding) = self.parts.embedding {
            let _guard = tch::no_grad_guard();
            let total = self.parameters[embedding].grad_mut();
            let kind = total.kind();
            let _ = total.index_add_(0, &packed.ids, &grad.to_kind(kind));
        }
        Ok(())
    }

    /// The vector-Jacobian product of one part: `grad` at its output becomes that at its input, which is
    /// returned; those of its parameters are added to their sums.
    fn part(
        &mut self,
        output: &Tensor,
        grad: &Tensor,
        input: &Tensor,
        parameters: &[usize],
    ) -> Result<Tensor, TrainError> {
        let mut inputs = vec![input.shallow_clone()];
        inputs.extend(parameters.iter().map(|&i| self.parameters[i].compute.shallow_clone()));
        // The seed of backward is 1 everywhere, so the gradient at `output` is exactly `grad`.
        let mut grads = Tensor::f_run_backward(&[output * grad], &inputs, false, false)?.into_iter();
        let at_input = grads.next().unwrap_or_else(|| input.zeros_like());
        for (&index, grad) in parameters.iter().zip(grads) {
            if grad.defined() {
                self.parameters[index].accumulate(&grad);
            }
        }
        Ok(at_input)
    }

    /// Where the gradient of the head's weight is added, if it is trained.
    pub fn head_grad(&mut self) -> Option<&mut Tensor> {
        self.parts.head.map(|i| self.parameters[i].grad_mut())
    }

    /// Updates all parameters with their gradients, clipped, and forgets these; `version` counts the updates.
    /// A gradient that is not finite changes nothing and is reported.
    pub fn update(
        &mut self,
        adam: AdamW,
        schedule: Schedule,
        clip_norm: Option<f64>,
        version: &mut u64,
    ) -> StepMetrics {
        let begin = Instant::now();
        let grad_norm = optimiser::global_norm(&self.parameters);
        let lr = adam.lr * schedule.factor(*version + 1);
        let clip_scale = match clip_norm {
            Some(bound) if grad_norm > bound => bound / grad_norm,
            _ => 1.0,
        };
        let skipped = !grad_norm.is_finite() || self.parameters.iter().all(|p| p.grad.is_none());
        if skipped {
            self.zero_grad();
        } else {
            *version += 1;
            optimiser::update(&mut self.parameters, adam, lr, *version, clip_scale);
            self.stale.set(true);
        }
        let seconds = begin.elapsed().as_secs_f64();
        StepMetrics { grad_norm, clip_scale, lr, skipped, version: *version, seconds }
    }

    /// Forgets the gradient.
    pub fn zero_grad(&mut self) {
        for parameter in &mut self.parameters {
            parameter.grad = None;
        }
    }

    /// The gradient since the last update, in full precision, by parameter; zero where none was added.
    pub fn gradients(&self) -> Vec<(String, Tensor)> {
        let grad = |p: &Parameter| p.grad.as_ref().map_or_else(|| p.master.zeros_like(), Tensor::copy);
        self.parameters.iter().map(|p| (p.name.clone(), grad(p))).collect()
    }

    /// Number of trained values.
    pub fn trained(&self) -> usize {
        self.parameters.iter().map(|p| p.master.numel()).sum()
    }
}

/// The rows of a layout, on a device.
pub(crate) fn pack(layout: &Layout, device: Device) -> Result<Packed, TrainError> {
    Ok(Packed::new(&layout.ids, &layout.nodes, device)?)
}

impl Parts {
    fn new(config: &Config, parameters: &[Parameter]) -> Parts {
        let mut parts = Parts { layers: vec![Vec::new(); config.layers], ..Parts::default() };
        // A head of its own takes the place of the embedding, which else is the output layer too.
        let own = parameters.iter().position(|p| matches!(p.name.as_str(), "lm_head.weight" | SCORE));
        parts.head = own;
        for (index, parameter) in parameters.iter().enumerate() {
            let name = parameter.name.as_str();
            let layer =
                name.strip_prefix("model.layers.").and_then(|rest| rest.split('.').next()?.parse().ok());
            match (layer, name) {
                (Some(layer), _) => {
                    let layer: usize = layer;
                    parts.layers[layer].push(index);
                }
                (None, "model.embed_tokens.weight") => {
                    parts.embedding = Some(index);
                    if config.tied && own.is_none() {
                        parts.head = Some(index);
                    }
                }
                (None, "model.norm.weight") => parts.norm = Some(index),
                (None, _) => {}
            }
        }
        parts
    }
}

/// The scalar head, as transformers names it.
pub(crate) const SCORE: &str = "score.weight";

/// What backward needs of the layers: their inputs, and their outputs with graphs unless recomputed.
struct Tape {
    inputs: Vec<Tensor>,
    outputs: Vec<Option<Tensor>>,
    /// Output of the last layer, `[T, H]`.
    output: Tensor,
}

impl Tape {
    /// What backward needs after a pass that kept the stream alone: before every layer, and after the last.
    fn of_stream(mut stream: Vec<Tensor>) -> Tape {
        // Even a decoder without layers has a stream.
        let output = stream.pop().unwrap_or_default();
        let outputs = stream.iter().map(|_| None).collect();
        Tape { inputs: stream.iter().map(leaf).collect(), outputs, output }
    }

    fn record(decoder: &Decoder, packed: &Packed, recompute: bool) -> Tape {
        let mut x = {
            let _guard = tch::no_grad_guard();
            decoder.embed(&packed.ids)
        };
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for layer in 0..decoder.config.layers {
            let input = leaf(&x);
            let _guard = recompute.then(tch::no_grad_guard);
            let output = decoder.layer(layer, &input, packed);
            x = output.detach();
            inputs.push(input);
            outputs.push((!recompute).then_some(output));
        }
        Tape { inputs, outputs, output: x }
    }

    /// Input and output of the last layer still recorded, with a graph between them.
    fn layer(&mut self, decoder: &Decoder, layer: usize, packed: &Packed) -> (Tensor, Tensor) {
        self.inputs.truncate(layer + 1);
        self.outputs.truncate(layer + 1);
        match (self.inputs.pop(), self.outputs.pop().flatten()) {
            (Some(input), Some(output)) => (input, output),
            (Some(input), None) => {
                let output = decoder.layer(layer, &input, packed);
                (input, output)
            }
            (None, _) => unreachable!("layers are taken from the last to the first, each once"),
        }
    }
}

/// The same values as a start of a graph.
fn leaf(x: &Tensor) -> Tensor {
    x.detach().set_requires_grad(true)
}
