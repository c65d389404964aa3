//! The trainer: a model, its optimiser, and the verbs that move it.
//!
//! Backward runs a layer at a time (a vector-Jacobian product per layer) rather than over one
//! graph. So gradients of a layer are added to the full-precision sums and freed at once, a layer's
//! activations go as soon as they were used, and checkpointing is one line: keep a layer's input
//! alone and compute it again.

use crate::batch::{self, Batch, to_list};
use crate::head::Head;
use crate::layout::{Forest, Layout, Target};
use crate::loss::LossOptions;
use crate::metrics::{LossMetrics, Meter, StepMetrics};
use crate::optimiser::{self, AdamW, Parameter, Schedule};
use crate::sample::TrainSample;
use crate::{LoraOptions, TrainError, checkpoint, lora};
use std::path::Path;
use std::time::Instant;
use tch::{Device, Kind, Tensor};
use whet_algorithm::reduction;
use whet_model::{Config, Decoder, Packed, Weights};
use whet_trajectory::WeightVersion;

/// How a model is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainOptions {
    /// What the model computes in. Masters are f32 beside bf16.
    pub kind: Kind,
    /// Where.
    pub device: Device,
    /// Adapters instead of all weights.
    pub lora: Option<LoraOptions>,
    /// The optimiser.
    pub adam: AdamW,
    /// The learning rate over time.
    pub schedule: Schedule,
    /// Bound on the gradient's norm, if any.
    pub clip_norm: Option<f64>,
    /// Token rows computed at once; bounds the memory for activations.
    pub micro_batch_tokens: usize,
    /// Keep only layer inputs for backward and compute the rest again: a third more work, far less memory.
    pub gradient_checkpointing: bool,
    /// Keep the first weights as the reference of a KL term. LoRA needs no copy for it.
    pub reference: bool,
}

impl Default for TrainOptions {
    fn default() -> Self {
        TrainOptions {
            kind: Kind::BFloat16,
            device: Device::Cpu,
            lora: None,
            adam: AdamW::default(),
            schedule: Schedule::default(),
            clip_norm: Some(1.0),
            micro_batch_tokens: 1024,
            gradient_checkpointing: false,
            reference: false,
        }
    }
}

/// Whose log-probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The weights as they are now.
    Policy,
    /// The weights training began with.
    Reference,
}

/// A frozen or trained model with its output layer.
struct Model {
    decoder: Decoder,
    head: Tensor,
}

/// Which parameters belong to which part of the model, as indices.
#[derive(Default)]
struct Parts {
    embedding: Option<usize>,
    layers: Vec<Vec<usize>>,
    norm: Option<usize>,
    head: Option<usize>,
}

/// A model in training.
pub struct Trainer {
    options: TrainOptions,
    config: Config,
    policy: Model,
    reference: Option<Model>,
    /// The tensors the policy computes with, by Hugging Face name, without adapters.
    weights: Weights,
    parameters: Vec<Parameter>,
    parts: Parts,
    version: u64,
}

impl Trainer {
    /// A trainer that starts from `weights` and takes them over: where kind and device are right it computes with
    /// these tensors themselves and changes them, so nobody else should hold them. Masters keep what precision
    /// the weights have.
    ///
    /// # Errors
    /// When weights do not fit the configuration, or an option makes no sense.
    pub fn new(config: &Config, weights: Weights, options: TrainOptions) -> Result<Trainer, TrainError> {
        if options.micro_batch_tokens == 0 {
            return Err(TrainError::Options("a micro-batch needs at least one token".into()));
        }
        if !options.device.is_cuda() {
            whet_native::heap::keep_freed_memory();
        }
        let _guard = tch::no_grad_guard();
        let (kind, device) = (options.kind, options.device);
        let given = weights;
        let compute = |t: &Tensor| t.detach().to_device(device).to_kind(kind);
        let weights: Weights = given.iter().map(|(name, t)| (name.clone(), compute(t))).collect();
        let adapters = options.lora.as_ref().map(|l| l.start(config, kind, device)).transpose()?;

        let mut parameters = Vec::new();
        match &adapters {
            None => {
                for (name, _) in config.tensors() {
                    if let (Some(compute), Some(value)) = (weights.get(&name), given.get(&name)) {
                        parameters.push(Parameter::new(name, compute, value));
                    }
                }
            }
            Some(adapters) => {
                for (module, (a, b)) in &adapters.adapters {
                    parameters.push(Parameter::new(lora::parameter_name(module, "A"), a, a));
                    parameters.push(Parameter::new(lora::parameter_name(module, "B"), b, b));
                }
            }
        }
        drop(given);
        let parts = Parts::new(config, &parameters);
        let copy = |(name, t): (&String, &Tensor)| (name.clone(), t.detach().copy());
        let frozen = match (&adapters, options.reference) {
            // Adapters off is the reference: it shares every tensor.
            (Some(_), _) => Some(Model::new(config, &weights)?),
            (None, true) => Some(Model::new(config, &weights.iter().map(copy).collect())?),
            (None, false) => None,
        };
        let mut policy = Model::new(config, &weights)?;
        if let Some(adapters) = &adapters {
            policy.decoder = policy.decoder.with_lora(adapters)?;
        }
        let config = config.clone();
        Ok(Trainer { options, config, policy, reference: frozen, weights, parameters, parts, version: 0 })
    }

    /// Updates behind the weights.
    pub fn version(&self) -> WeightVersion {
        WeightVersion(self.version)
    }

    /// Number of trained values.
    pub fn trained_parameters(&self) -> usize {
        self.parameters.iter().map(|p| p.master.numel()).sum()
    }

    /// Log-probability of every trained token under the tempered distribution; 0 at the others.
    ///
    /// # Errors
    /// When a sample is malformed, or the reference is asked for and none was kept.
    pub fn logprobs(
        &self,
        samples: &[TrainSample],
        which: Which,
        temperature: f64,
    ) -> Result<Vec<Vec<f32>>, TrainError> {
        self.check(samples)?;
        let model = match which {
            Which::Policy => &self.policy,
            Which::Reference => self.reference()?,
        };
        let mut lists: Vec<Vec<f32>> = samples.iter().map(|s| vec![0.0; s.tokens.len()]).collect();
        let trained: Vec<usize> = (0..samples.len()).filter(|&s| samples[s].trained() > 0).collect();
        let forest = Forest::new(samples, &trained);
        for part in forest.cut(samples, self.options.micro_batch_tokens) {
            let layout = Layout::new(samples, &forest, part);
            let packed = self.pack(&layout)?;
            let values = to_list(&model.logprobs(&packed, &layout, temperature)?)?;
            for (target, value) in layout.targets.iter().zip(values) {
                lists[target.sample][target.position] = value as f32;
            }
        }
        Ok(lists)
    }

    /// Adds the gradient of the batch's loss to what was added since the last update.
    ///
    /// The loss is that of the whole batch, however it is cut into micro-batches. Samples without a
    /// trained token change nothing, not even a mean; those without an advantage count in every mean of the
    /// loss, but are not computed where it has no gradient without one.
    ///
    /// # Errors
    /// When the loss or a sample makes no sense, before anything is computed.
    pub fn forward_backward(
        &mut self,
        samples: &[TrainSample],
        loss: &LossOptions,
    ) -> Result<LossMetrics, TrainError> {
        loss.check()?;
        self.check(samples)?;
        if loss.kl.is_some() && samples.iter().any(|s| s.reference_logprobs.is_none()) {
            self.reference()?;
        }
        let lengths: Vec<usize> = samples.iter().map(TrainSample::trained).collect();
        let sequences = reduction::trained(&lengths);
        let weights = loss.reduction.weights(&lengths, sequences);
        let picked = self.picked(samples, loss)?;
        let batch = Batch { samples, weights: &weights, picked: picked.as_deref() };
        let mut meter = Meter::new(lengths.iter().sum(), sequences);
        let forest = Forest::new(samples, &batch::needed(samples, loss));
        for part in forest.cut(samples, self.options.micro_batch_tokens) {
            self.micro_batch(&batch, &Layout::new(samples, &forest, part), loss, &mut meter)?;
        }
        Ok(meter.finish())
    }

    /// Updates the weights with the gradient, clipped, and forgets it. A gradient that is not finite
    /// changes nothing and is reported.
    pub fn optimiser_step(&mut self) -> StepMetrics {
        let begin = Instant::now();
        let grad_norm = optimiser::global_norm(&self.parameters);
        let lr = self.options.adam.lr * self.options.schedule.factor(self.version + 1);
        let clip_scale = match self.options.clip_norm {
            Some(bound) if grad_norm > bound => bound / grad_norm,
            _ => 1.0,
        };
        let skipped = !grad_norm.is_finite() || self.parameters.iter().all(|p| p.grad.is_none());
        if skipped {
            self.zero_grad();
        } else {
            self.version += 1;
            optimiser::update(&mut self.parameters, self.options.adam, lr, self.version, clip_scale);
        }
        let seconds = begin.elapsed().as_secs_f64();
        StepMetrics { grad_norm, clip_scale, lr, skipped, version: self.version, seconds }
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

    /// All weights in Hugging Face names and the compute kind, adapters merged. Tensors that training
    /// does not merge are handles to the trainer's own: copy them before the next update.
    pub fn weights(&self) -> Vec<(String, Tensor)> {
        match &self.options.lora {
            None => self.weights.iter().map(|(name, t)| (name.clone(), t.detach())).collect(),
            Some(options) => lora::merge_all(&self.weights, options.scale(), |name| self.master(name)),
        }
    }

    /// Writes masters, moments and version to `dir`, whole or not at all.
    ///
    /// # Errors
    /// When the disk refuses; what was there before is kept.
    pub fn save(&self, dir: &Path) -> Result<(), TrainError> {
        checkpoint::save(dir, &self.parameters, self.version)
    }

    /// Goes on from what [`Trainer::save`] wrote.
    ///
    /// # Errors
    /// [`crate::CheckpointError`] when it is torn or of another model.
    pub fn load(&mut self, dir: &Path) -> Result<(), TrainError> {
        self.version = checkpoint::load(dir, &mut self.parameters)?;
        Ok(())
    }

    /// Writes the adapters in PEFT's layout; `base` names the model they belong to.
    ///
    /// # Errors
    /// When training has no adapters, or the disk refuses.
    pub fn export_adapter(&self, dir: &Path, base: &str) -> Result<(), TrainError> {
        let Some(options) = &self.options.lora else {
            let reason = "all weights are trained, so there is no adapter: export the merged model instead";
            return Err(TrainError::Options(reason.into()));
        };
        let halves: Vec<(String, Tensor)> =
            self.parameters.iter().map(|p| (p.name.clone(), p.master.shallow_clone())).collect();
        lora::export(dir, options, base, &halves)
    }

    fn master(&self, name: &str) -> Option<Tensor> {
        self.parameters.iter().find(|p| p.name == name).map(|p| p.master.shallow_clone())
    }

    fn check(&self, samples: &[TrainSample]) -> Result<(), TrainError> {
        let vocabulary = self.config.vocab_size as i64;
        samples.iter().try_for_each(|s| s.check(vocabulary)).map_err(TrainError::from)
    }

    fn reference(&self) -> Result<&Model, TrainError> {
        self.reference.as_ref().ok_or_else(|| {
            TrainError::Options("the loss has a KL term, but no reference was kept: set `reference`".into())
        })
    }

    fn pack(&self, layout: &Layout) -> Result<Packed, TrainError> {
        Ok(Packed::new(&layout.ids, &layout.nodes, self.options.device)?)
    }

    /// The tokens that a rule over the whole batch picks, by sample and token, where the loss has one. It takes a
    /// pass over the batch of its own.
    fn picked(
        &self,
        samples: &[TrainSample],
        loss: &LossOptions,
    ) -> Result<Option<Vec<Vec<bool>>>, TrainError> {
        if !loss.objective.picks() {
            return Ok(None);
        }
        let current = self.logprobs(samples, Which::Policy, loss.temperature)?;
        Ok(Some(batch::pick(samples, &current, loss)))
    }

    /// Forward and backward of one micro-batch; adds to gradients and meter.
    fn micro_batch(
        &mut self,
        batch: &Batch,
        layout: &Layout,
        loss: &LossOptions,
        meter: &mut Meter,
    ) -> Result<(), TrainError> {
        let packed = self.pack(layout)?;
        let reference = self.reference_of(batch.samples, layout, &packed, loss, meter)?;

        let begin = Instant::now();
        let mut tape = Tape::record(&self.policy.decoder, &packed, self.options.gradient_checkpointing);
        let rows = Tensor::from_slice(&layout.rows).to_device(self.options.device);
        let last = leaf(&tape.output.index_select(0, &rows));
        let hidden = self.policy.decoder.norm(&last);
        let normed = hidden.detach();
        meter.sums.seconds.forward += begin.elapsed().as_secs_f64();

        let begin = Instant::now();
        let head_weight = self.policy.head.shallow_clone();
        let head = Head::new(&head_weight, loss.temperature, layout);
        let log_probs = head.forward(&normed);
        let grad = batch.token_gradient(layout, &log_probs, reference.as_deref(), loss, meter)?;
        let head_grad = self.parts.head.map(|i| self.parameters[i].grad_mut());
        let grad = head.backward(&normed, &log_probs, &grad.to_device(self.options.device), head_grad);
        meter.sums.seconds.head += begin.elapsed().as_secs_f64();

        let begin = Instant::now();
        let norm: Vec<usize> = self.parts.norm.into_iter().collect();
        let grad = self.backward(&hidden, &grad, &last, &norm)?;
        drop(hidden);
        let mut grad = tape.output.zeros_like().index_add(0, &rows, &grad);
        for layer in (0..self.parts.layers.len()).rev() {
            let (input, output) = tape.layer(&self.policy.decoder, layer, &packed);
            let parameters = std::mem::take(&mut self.parts.layers[layer]);
            let result = self.backward(&output, &grad, &input, &parameters);
            self.parts.layers[layer] = parameters;
            grad = result?;
        }
        if let Some(embedding) = self.parts.embedding {
            let _guard = tch::no_grad_guard();
            let total = self.parameters[embedding].grad_mut();
            let kind = total.kind();
            let _ = total.index_add_(0, &packed.ids, &grad.to_kind(kind));
        }
        meter.sums.seconds.backward += begin.elapsed().as_secs_f64();
        meter.sums.rows += layout.ids.len();
        meter.sums.micro_batches += 1;
        Ok(())
    }

    /// The vector-Jacobian product of one part: `grad` at its output becomes that at its input, which is
    /// returned; those of its parameters are added to their sums.
    fn backward(
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

    /// The reference's log-probabilities of a micro-batch's targets, where the loss has a KL term.
    fn reference_of(
        &self,
        samples: &[TrainSample],
        layout: &Layout,
        packed: &Packed,
        loss: &LossOptions,
        meter: &mut Meter,
    ) -> Result<Option<Vec<f64>>, TrainError> {
        if loss.kl.is_none() {
            return Ok(None);
        }
        let given =
            |t: &Target| samples[t.sample].reference_logprobs.as_ref().map(|l| f64::from(l[t.position]));
        if let Some(given) = layout.targets.iter().map(given).collect::<Option<Vec<f64>>>() {
            return Ok(Some(given));
        }
        let begin = Instant::now();
        let values = to_list(&self.reference()?.logprobs(packed, layout, loss.temperature)?)?;
        meter.sums.seconds.reference += begin.elapsed().as_secs_f64();
        Ok(Some(values))
    }
}

impl Model {
    fn new(config: &Config, weights: &Weights) -> Result<Model, TrainError> {
        let decoder = Decoder::new(config, weights)?;
        let name = if config.tied { "model.embed_tokens.weight" } else { "lm_head.weight" };
        // `Decoder::new` has checked that it is there.
        let head = weights.get(name).map(Tensor::detach).unwrap_or_default();
        Ok(Model { decoder, head })
    }

    /// Log-probabilities of the layout's targets, without a graph.
    fn logprobs(&self, packed: &Packed, layout: &Layout, temperature: f64) -> Result<Tensor, TrainError> {
        let _guard = tch::no_grad_guard();
        let embedded = self.decoder.embed(&packed.ids);
        let x = (0..self.decoder.config.layers).fold(embedded, |x, i| self.decoder.layer(i, &x, packed));
        let rows = Tensor::from_slice(&layout.rows).to_device(x.device());
        let hidden = self.decoder.norm(&x.index_select(0, &rows));
        Ok(Head::new(&self.head, temperature, layout).forward(&hidden).targets)
    }
}

impl Parts {
    fn new(config: &Config, parameters: &[Parameter]) -> Parts {
        let mut parts = Parts { layers: vec![Vec::new(); config.layers], ..Parts::default() };
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
                    if config.tied {
                        parts.head = Some(index);
                    }
                }
                (None, "lm_head.weight") => parts.head = Some(index),
                (None, _) => parts.norm = Some(index),
            }
        }
        parts
    }
}

/// What backward needs of the layers: their inputs, and their outputs with graphs unless recomputed.
struct Tape {
    inputs: Vec<Tensor>,
    outputs: Vec<Option<Tensor>>,
    /// Output of the last layer, `[T, H]`.
    output: Tensor,
}

impl Tape {
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
