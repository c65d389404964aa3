//! AdamW over full-precision masters, learning-rate schedules and clipping by the global norm.
//!
//! Compute weights may be bf16; the masters, both moments and the gradient are f32 (f64 where the
//! model is), since an update is far smaller than a bf16 step.

use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};
use whet_native::adam as native;
use whet_native::view::{self, ViewError};

/// Elements that are updated at once where tensor operations do it, so that their passes run in cache.
const PIECE: i64 = 1 << 18;

/// AdamW (arXiv 1711.05101), as PyTorch computes it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdamW {
    /// Learning rate at the top of the schedule.
    pub lr: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay; norms and biases are spared.
    pub weight_decay: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        AdamW { lr: 1e-6, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 }
    }
}

/// How the learning rate moves over the steps of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Steps over which it rises from 0 in a line; step 1 of 10 has a tenth.
    pub warmup: u64,
    /// What follows.
    pub decay: Decay,
}

/// How the learning rate falls after warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Decay {
    /// It stays.
    #[default]
    Constant,
    /// In a line to `floor` of the top at step `steps`.
    Linear {
        /// Total steps, warm-up included.
        steps: u64,
        /// What remains, as a fraction of the top.
        floor: f64,
    },
    /// In half a cosine to `floor` of the top at step `steps`.
    Cosine {
        /// Total steps, warm-up included.
        steps: u64,
        /// What remains, as a fraction of the top.
        floor: f64,
    },
}

impl Schedule {
    /// The factor on the learning rate for update `step`, counted from 1.
    pub fn factor(&self, step: u64) -> f64 {
        if step <= self.warmup {
            return step as f64 / self.warmup as f64;
        }
        let progress = |steps: u64| {
            let span = steps.saturating_sub(self.warmup).max(1);
            // The last step still trains: `floor` is reached one step after it.
            ((step - self.warmup - 1) as f64 / span as f64).min(1.0)
        };
        match self.decay {
            Decay::Constant => 1.0,
            Decay::Linear { steps, floor } => 1.0 - (1.0 - floor) * progress(steps),
            Decay::Cosine { steps, floor } => {
                floor + (1.0 - floor) * 0.5 * (1.0 + (std::f64::consts::PI * progress(steps)).cos())
            }
        }
    }
}

/// One trained tensor with everything an update needs.
#[derive(Debug)]
pub struct Parameter {
    /// Hugging Face name, or that of an adapter.
    pub name: String,
    /// What the model computes with; may share storage with `master`.
    pub compute: Tensor,
    /// The weight itself.
    pub master: Tensor,
    /// First moment.
    pub moment1: Tensor,
    /// Second moment.
    pub moment2: Tensor,
    /// Sum of the gradients since the last update; absent when none was added.
    pub grad: Option<Tensor>,
    decays: bool,
}

impl Parameter {
    /// A parameter that starts from `value` and is computed with as `compute`. The master is `compute`
    /// itself where that is f32 or f64 already, else `value`, which may be more exact, taken over or converted.
    pub fn new(name: String, compute: &Tensor, value: &Tensor) -> Parameter {
        let kind = master_kind(compute.kind());
        let master = if compute.kind() == kind {
            compute.detach()
        } else {
            value.detach().to_device(compute.device()).to_kind(kind)
        };
        Parameter {
            decays: compute.dim() > 1,
            name,
            compute: compute.set_requires_grad(true),
            moment1: master.zeros_like(),
            moment2: master.zeros_like(),
            master,
            grad: None,
        }
    }

    /// Adds to the gradient.
    pub fn accumulate(&mut self, grad: &Tensor) {
        let _guard = tch::no_grad_guard();
        match &mut self.grad {
            Some(total) => {
                let _ = total.g_add_(grad);
            }
            // `copy`: autograd may hand out a tensor that others hold.
            None => self.grad = Some(grad.to_dtype(self.master.kind(), false, true)),
        }
    }

    /// The gradient's place, zero where nothing was added, for those who add to it themselves.
    pub fn grad_mut(&mut self) -> &mut Tensor {
        let _guard = tch::no_grad_guard();
        self.grad.get_or_insert_with(|| self.master.zeros_like())
    }

    /// Writes the master's value into the compute weight.
    pub fn refresh(&mut self) {
        let _guard = tch::no_grad_guard();
        if self.compute.data_ptr() != self.master.data_ptr() {
            self.compute.copy_(&self.master);
        }
    }
}

/// The kind of masters for a compute kind.
pub fn master_kind(compute: Kind) -> Kind {
    if compute == Kind::Double { Kind::Double } else { Kind::Float }
}

/// The Euclidean norm over all gradients.
pub fn global_norm(parameters: &[Parameter]) -> f64 {
    let _guard = tch::no_grad_guard();
    let square = |p: &Parameter| p.grad.as_ref().map_or(0.0, |g| g.norm().double_value(&[]).powi(2));
    parameters.iter().map(square).sum::<f64>().sqrt()
}

/// One AdamW update of all parameters with a gradient; gradients are multiplied by `scale` and dropped.
///
/// * `lr`: of this update; `step`: number of this update, from 1
pub fn update(parameters: &mut [Parameter], adam: AdamW, lr: f64, step: u64, scale: f64) {
    let _guard = tch::no_grad_guard();
    let exponent = i32::try_from(step).unwrap_or(i32::MAX);
    let correction1 = 1.0 - adam.beta1.powi(exponent);
    let correction2 = (1.0 - adam.beta2.powi(exponent)).sqrt();
    for parameter in parameters {
        let Some(grad) = parameter.grad.take() else { continue };
        let keep = if parameter.decays { 1.0 - lr * adam.weight_decay } else { 1.0 };
        let with = native::AdamW {
            beta1: adam.beta1 as f32,
            beta2: adam.beta2 as f32,
            eps: adam.eps as f32,
            keep: keep as f32,
            step: (lr / correction1) as f32,
            root: correction2 as f32,
            scale: scale as f32,
        };
        if in_one_pass(parameter, &grad, with).is_ok() {
            parameter.refresh();
            continue;
        }
        let flat = |t: &Tensor| t.view([-1]);
        let (master, moment1, moment2, grad) =
            (flat(&parameter.master), flat(&parameter.moment1), flat(&parameter.moment2), flat(&grad));
        let total = master.size()[0];
        for start in (0..total).step_by(PIECE as usize) {
            let piece = |t: &Tensor| t.narrow(0, start, PIECE.min(total - start));
            let mut grad = piece(&grad);
            if scale != 1.0 {
                let _ = grad.g_mul_scalar_(scale);
            }
            let mut moment1 = piece(&moment1);
            let _ = moment1.lerp_(&grad, 1.0 - adam.beta1);
            let mut moment2 = piece(&moment2);
            let _ = moment2.g_mul_scalar_(adam.beta2);
            let _ = moment2.g_add_(&grad.square_().g_mul_scalar_(1.0 - adam.beta2));
            let mut denominator = moment2.sqrt().g_div_scalar_(correction2);
            let denominator = denominator.g_add_scalar_(adam.eps);
            let mut master = piece(&master);
            if keep != 1.0 {
                let _ = master.g_mul_scalar_(keep);
            }
            let mut direction = moment1 / denominator;
            let _ = master.g_sub_(&direction.g_mul_scalar_(lr / correction1));
        }
        parameter.refresh();
    }
}

/// The update where all lies in f32 on the CPU.
///
/// # Errors
/// When it does not; nothing has been changed then.
fn in_one_pass(parameter: &mut Parameter, grad: &Tensor, with: native::AdamW) -> Result<(), ViewError> {
    let Parameter { master, moment1, moment2, .. } = parameter;
    let (moment1, moment2) = (view::slice_mut::<f32>(moment1)?, view::slice_mut::<f32>(moment2)?);
    with.update(view::slice_mut::<f32>(master)?, moment1, moment2, view::slice::<f32>(grad)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(weight: &Tensor) -> Parameter {
        Parameter::new("w".into(), weight, weight)
    }

    #[test]
    fn an_update_is_pytorchs_adamw() {
        // torch.optim.AdamW(lr=0.1, betas=(.9,.999), eps=1e-8, weight_decay=0.1) on p=[[1,-2]] with
        // gradients [.5,-1] and then [.25,2], worked out by hand below.
        let adam = AdamW { lr: 0.1, weight_decay: 0.1, ..AdamW::default() };
        let mut parameters = vec![parameter(&Tensor::from_slice(&[1.0f64, -2.0]).view([1, 2]))];
        let (mut p, mut m, mut v) = ([1.0f64, -2.0], [0.0f64; 2], [0.0f64; 2]);
        for (step, g) in [[0.5f64, -1.0], [0.25, 2.0]].into_iter().enumerate() {
            let step = step as i32 + 1;
            parameters[0].accumulate(&Tensor::from_slice(&g).view([1, 2]));
            update(&mut parameters, adam, adam.lr, step as u64, 1.0);
            for i in 0..2 {
                p[i] *= 1.0 - 0.1 * 0.1;
                m[i] = 0.9 * m[i] + 0.1 * g[i];
                v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
                let denominator = (v[i] / (1.0 - 0.999f64.powi(step))).sqrt() + 1e-8;
                p[i] -= 0.1 * m[i] / (1.0 - 0.9f64.powi(step)) / denominator;
            }
        }
        let found: Vec<f64> = Vec::try_from(parameters[0].compute.view([-1])).expect("f64");
        for i in 0..2 {
            assert!((found[i] - p[i]).abs() < 1e-12, "{found:?} instead of {p:?}");
        }
        assert!(parameters[0].grad.is_none());
    }

    #[test]
    fn a_bf16_weight_moves_by_updates_smaller_than_its_step() {
        let weight = Tensor::ones([4, 4], (Kind::BFloat16, tch::Device::Cpu));
        let mut parameters = vec![parameter(&weight)];
        // A bf16 step at 1 is 2^-8 below and 2^-7 above; ten updates of 1e-3 are visible only in a master.
        for step in 1..=10 {
            parameters[0].accumulate(&weight.ones_like());
            update(&mut parameters, AdamW { lr: 1e-3, ..AdamW::default() }, 1e-3, step, 1.0);
        }
        assert!((parameters[0].master.double_value(&[0, 0]) - 0.99).abs() < 1e-4);
        assert!((parameters[0].compute.double_value(&[0, 0]) - 0.99).abs() < 4e-3);
    }

    #[test]
    fn vectors_do_not_decay() {
        let decayed = |shape: &[i64]| {
            let mut parameters = vec![parameter(&Tensor::ones(shape, (Kind::Float, tch::Device::Cpu)))];
            parameters[0].accumulate(&Tensor::zeros(shape, (Kind::Float, tch::Device::Cpu)));
            update(&mut parameters, AdamW { weight_decay: 0.5, ..AdamW::default() }, 0.1, 1, 1.0);
            parameters[0].master.sum(Kind::Double).double_value(&[])
        };
        assert_eq!(decayed(&[4]), 4.0);
        assert!((decayed(&[2, 2]) - 3.8).abs() < 1e-6);
    }

    #[test]
    fn schedules_rise_in_warmup_and_fall_to_their_floor() {
        let constant = Schedule { warmup: 4, decay: Decay::Constant };
        assert_eq!([1, 2, 4, 100].map(|s| constant.factor(s)), [0.25, 0.5, 1.0, 1.0]);
        for decay in [Decay::Linear { steps: 14, floor: 0.1 }, Decay::Cosine { steps: 14, floor: 0.1 }] {
            let schedule = Schedule { warmup: 4, decay };
            assert_eq!(schedule.factor(5), 1.0);
            assert!((schedule.factor(10) - 0.55).abs() < 1e-9, "{decay:?}");
            assert!((schedule.factor(15) - 0.1).abs() < 1e-9 && (schedule.factor(99) - 0.1).abs() < 1e-9);
        }
    }
}
