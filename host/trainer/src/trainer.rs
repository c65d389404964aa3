//! The trainer: a model, its optimiser, and the verbs that move it.

use crate::batch::{self, Batch, to_list};
use crate::body::Body;
use crate::distil::{Distillation, Output};
use crate::frozen::{self, Frozen, check};
use crate::head::Head;
use crate::layout::{Forest, Layout, Target};
use crate::loss::LossOptions;
use crate::metrics::{LossMetrics, Meter, StepMetrics};
use crate::optimiser::{AdamW, Parameter, Schedule};
use crate::plan::{self, Now, Plan};
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
    /// Keep only layer inputs for backward and compute the rest again: a third more work, far less memory. With the
    /// CPU's kernels it is always so.
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

/// A model in training.
pub struct Trainer {
    pub(crate) options: TrainOptions,
    pub(crate) body: Body,
    /// The output layer, `[V, H]`.
    pub(crate) head: Tensor,
    reference: Option<Frozen>,
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
        let mut start = Start::new(config, weights, &options)?;
        let (head, reference) = (start.head.shallow_clone(), start.reference.take());
        let body = Body::new(start, Vec::new(), &options)?;
        Ok(Trainer { options, body, head, reference, version: 0 })
    }

    /// Updates behind the weights.
    pub fn version(&self) -> WeightVersion {
        WeightVersion(self.version)
    }

    /// Number of trained values.
    pub fn trained_parameters(&self) -> usize {
        self.body.trained()
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
        check(samples, self.body.config())?;
        let reference = match which {
            Which::Policy => None,
            Which::Reference => Some(self.reference()?),
        };
        let budget = self.options.micro_batch_tokens;
        frozen::logprobs(samples, budget, self.options.device, |packed, layout| {
            if let Some(reference) = reference {
                return reference.targets(packed, layout, temperature);
            }
            let hidden = self.body.hidden(packed, layout)?;
            Ok(Head::new(&self.head, temperature, layout).forward(&hidden).targets)
        })
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
        self.learn(samples, loss, None)
    }

    /// As [`Trainer::forward_backward`], with the divergence from a teacher's distributions added to the loss.
    ///
    /// # Errors
    /// Also when the teacher's distribution is not known where it is asked for.
    pub fn forward_backward_towards(
        &mut self,
        samples: &[TrainSample],
        loss: &LossOptions,
        distillation: &Distillation<'_>,
    ) -> Result<LossMetrics, TrainError> {
        distillation.check(samples)?;
        self.learn(samples, loss, Some(distillation))
    }

    fn learn(
        &mut self,
        samples: &[TrainSample],
        loss: &LossOptions,
        distillation: Option<&Distillation<'_>>,
    ) -> Result<LossMetrics, TrainError> {
        loss.check()?;
        check(samples, self.body.config())?;
        if loss.kl.is_some() && samples.iter().any(|s| s.reference_logprobs.is_none()) {
            self.reference()?;
        }
        let lengths: Vec<usize> = samples.iter().map(TrainSample::trained).collect();
        let sequences = reduction::trained(&lengths);
        let weights = loss.reduction.weights(&lengths, sequences);
        let plan = self.plan(samples, loss)?;
        let batch = Batch { samples, weights: &weights, plan: plan.as_ref() };
        let mut meter = Meter::new(lengths.iter().sum(), sequences);
        let needed = match distillation {
            None => batch::needed(samples, loss),
            Some(_) => (0..samples.len()).filter(|&s| lengths[s] > 0).collect(),
        };
        let forest = Forest::new(samples, &needed);
        for part in forest.cut(samples, self.options.micro_batch_tokens) {
            let layout = Layout::new(samples, &forest, part);
            self.micro_batch(&batch, &layout, loss, distillation, &mut meter)?;
        }
        Ok(meter.finish())
    }

    /// Updates the weights with the gradient, clipped, and forgets it. A gradient that is not finite
    /// changes nothing and is reported.
    pub fn optimiser_step(&mut self) -> StepMetrics {
        let TrainOptions { adam, schedule, clip_norm, .. } = self.options;
        self.body.update(adam, schedule, clip_norm, &mut self.version)
    }

    /// Forgets the gradient.
    pub fn zero_grad(&mut self) {
        self.body.zero_grad();
    }

    /// The gradient since the last update, in full precision, by parameter; zero where none was added.
    pub fn gradients(&self) -> Vec<(String, Tensor)> {
        self.body.gradients()
    }

    /// All weights in Hugging Face names and the compute kind, adapters merged. Tensors that training
    /// does not merge are handles to the trainer's own: copy them before the next update.
    pub fn weights(&self) -> Vec<(String, Tensor)> {
        self.body.weights()
    }

    /// Writes masters, moments and version to `dir`, whole or not at all.
    ///
    /// # Errors
    /// When the disk refuses; what was there before is kept.
    pub fn save(&self, dir: &Path) -> Result<(), TrainError> {
        checkpoint::save(dir, &self.body.parameters, self.version)
    }

    /// Goes on from what [`Trainer::save`] wrote.
    ///
    /// # Errors
    /// [`crate::CheckpointError`] when it is torn or of another model.
    pub fn load(&mut self, dir: &Path) -> Result<(), TrainError> {
        self.version = self.body.load(dir)?;
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
        let parameters = &self.body.parameters;
        let halves: Vec<(String, Tensor)> =
            parameters.iter().map(|p| (p.name.clone(), p.master.shallow_clone())).collect();
        lora::export(dir, options, base, &halves)
    }

    fn reference(&self) -> Result<&Frozen, TrainError> {
        self.reference.as_ref().ok_or_else(|| {
            TrainError::Options("the loss has a KL term, but no reference was kept: set `reference`".into())
        })
    }

    /// What the loss's rules over the whole batch decide, where it has such. It takes a pass over the batch of its own.
    fn plan(&self, samples: &[TrainSample], loss: &LossOptions) -> Result<Option<Plan>, TrainError> {
        if !plan::looks_ahead(loss) {
            return Ok(None);
        }
        let now: Vec<Now> = self
            .distributions(samples, loss.temperature, false)?
            .into_iter()
            .zip(samples)
            .map(|(found, sample)| {
                let trained = |list: &[f64]| -> Vec<f64> {
                    list.iter().zip(&sample.loss_mask).filter(|(_, m)| **m).map(|(v, _)| *v).collect()
                };
                Now { log_prob: trained(&found.log_prob), entropy: trained(&found.entropy) }
            })
            .collect();
        Ok(Some(plan::plan(samples, &now, loss)))
    }

    /// Forward and backward of one micro-batch; adds to gradients and meter.
    fn micro_batch(
        &mut self,
        batch: &Batch,
        layout: &Layout,
        loss: &LossOptions,
        distillation: Option<&Distillation<'_>>,
        meter: &mut Meter,
    ) -> Result<(), TrainError> {
        let begin = Instant::now();
        let pass = self.body.forward(layout)?;
        let hidden = pass.hidden();
        meter.sums.seconds.forward += begin.elapsed().as_secs_f64();
        let reference = self.reference_of(batch.samples, layout, pass.packed(), loss, meter)?;

        let begin = Instant::now();
        let head = Head::new(&self.head, loss.temperature, layout);
        let log_probs = head.forward(&hidden);
        let found = batch.token_gradient(layout, &log_probs, reference.as_deref(), loss, meter)?;
        let device = self.options.device;
        let (at_tokens, at_entropy) =
            (found.log_prob.to_device(device), found.entropy.map(|t| t.to_device(device)));
        let head_grad = self.body.head_grad();
        let mut grad = head.backward_both(&hidden, &log_probs, &at_tokens, at_entropy.as_ref(), head_grad);
        if let Some(distillation) = distillation {
            let samples = batch.samples;
            let packed = pass.packed();
            let output = Output { samples, hidden: &hidden, weight: &self.head, packed, layout };
            let (more, found) =
                distillation.gradient(&output, batch.weights, loss.temperature, self.body.head_grad())?;
            grad += more;
            meter.sums.loss += found.loss;
            meter.sums.teacher += found.divergence;
        }
        meter.sums.seconds.head += begin.elapsed().as_secs_f64();

        let begin = Instant::now();
        self.body.backward(pass, &grad)?;
        meter.sums.seconds.backward += begin.elapsed().as_secs_f64();
        meter.sums.rows += layout.ids.len();
        meter.sums.micro_batches += 1;
        Ok(())
    }

    /// Forward and backward of one micro-batch; `gradient` turns the targets' log-probabilities `[N]` into the
    /// gradient at each.
    pub(crate) fn pass(
        &mut self,
        layout: &Layout,
        temperature: f64,
        gradient: impl FnOnce(&Tensor) -> Result<Tensor, TrainError>,
    ) -> Result<(), TrainError> {
        let pass = self.body.forward(layout)?;
        let hidden = pass.hidden();
        let head = Head::new(&self.head, temperature, layout);
        let log_probs = head.forward(&hidden);
        let grad = gradient(&log_probs.targets)?.to_device(self.options.device);
        let grad = head.backward(&hidden, &log_probs, &grad, self.body.head_grad());
        self.body.backward(pass, &grad)
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
        let values = to_list(&self.reference()?.targets(packed, layout, loss.temperature)?)?;
        meter.sums.seconds.reference += begin.elapsed().as_secs_f64();
        Ok(Some(values))
    }
}

/// What training begins with.
pub(crate) struct Start {
    pub parameters: Vec<Parameter>,
    pub decoder: Decoder,
    /// The output layer, `[V, H]`.
    pub head: Tensor,
    pub reference: Option<Frozen>,
    pub weights: Weights,
}

impl Start {
    /// Puts weights where and in what they are computed with, and adapters beside them.
    pub fn new(config: &Config, weights: Weights, options: &TrainOptions) -> Result<Start, TrainError> {
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
        let copy = |(name, t): (&String, &Tensor)| (name.clone(), t.detach().copy());
        let reference = match (&adapters, options.reference) {
            // Adapters off is the reference: it shares every tensor.
            (Some(_), _) => Some(Frozen::new(config, &weights)?),
            (None, true) => Some(Frozen::new(config, &weights.iter().map(copy).collect())?),
            (None, false) => None,
        };
        let mut decoder = Decoder::new(config, &weights)?;
        let head = frozen::head(config, &weights);
        if let Some(adapters) = &adapters {
            decoder = decoder.with_lora(adapters)?;
        }
        Ok(Start { parameters, decoder, head, reference, weights })
    }
}
