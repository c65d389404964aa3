//! Distillation: the divergence of the policy's distributions from a teacher's, at every trained token.
//!
//! A distribution has as many entries as the vocabulary, so rows are worked in chunks: their logits, the
//! teacher's, and the gradient exist for one chunk at a time. Only the divergence itself is differentiated
//! by autograd; the output layer's product is written down, as in [`crate::head`].

use crate::TrainError;
use crate::body;
use crate::frozen::Frozen;
use crate::head::{self, wide};
use crate::layout::Layout;
use crate::loss::LossError;
use crate::loss::distillation::{Divergence, Rest, divergence};
use crate::sample::TrainSample;
use std::collections::HashMap;
use tch::{Kind, Tensor};
use whet_model::Packed;
use whet_trajectory::SampleId;

/// Entries of a chunk's logits; some eight tensors of this size exist at once.
const ENTRIES: i64 = 1 << 23;

/// Over which tokens distributions are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// The whole vocabulary.
    All,
    /// The teacher's likeliest.
    Teacher {
        /// How many.
        top: usize,
    },
    /// The student's likeliest.
    Student {
        /// How many.
        top: usize,
    },
}

/// What the teacher says.
#[derive(Clone, Copy)]
pub enum Teacher<'a> {
    /// A model here.
    Model(&'a Frozen),
    /// What a teacher elsewhere said of each sample's tokens; its likeliest tokens are the support.
    Told(&'a HashMap<SampleId, Told>),
}

/// A teacher's likeliest tokens at every token of a sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// Number of them at every token.
    pub top: usize,
    /// `[tokens * top]`: entries `t * top ..` say what the teacher expects in place of token `t`.
    pub ids: Vec<u32>,
    /// Their log-probabilities.
    pub logprobs: Vec<f32>,
}

/// A term of the loss: `coefficient` times the divergence of every trained token, reduced as the loss is.
#[derive(Clone, Copy)]
pub struct Distillation<'a> {
    /// Which divergence.
    pub divergence: Divergence,
    /// Over which tokens.
    pub support: Support,
    /// What becomes of the probability of the other tokens.
    pub rest: Rest,
    /// Weight in the loss.
    pub coefficient: f64,
    /// What the teacher says.
    pub teacher: Teacher<'a>,
}

/// The policy at the end of a micro-batch's forward pass.
pub(crate) struct Output<'a> {
    /// The whole batch.
    pub samples: &'a [TrainSample],
    /// `[R, H]`.
    pub hidden: &'a Tensor,
    /// `[V, H]`.
    pub weight: &'a Tensor,
    pub packed: &'a Packed,
    pub layout: &'a Layout,
}

/// What a micro-batch adds to the metrics.
pub(crate) struct Found {
    pub loss: f64,
    /// Sum of the divergences of the targets.
    pub divergence: f64,
}

impl Distillation<'_> {
    pub(crate) fn check(&self, samples: &[TrainSample]) -> Result<(), TrainError> {
        let range = |option, value, range| Err(LossError::Range { option, value, range }.into());
        if !(self.coefficient.is_finite() && self.coefficient > 0.0) {
            return range("teacher coefficient", self.coefficient, "finite and above 0");
        }
        if let Divergence::Jensen { teacher } = self.divergence
            && !(teacher > 0.0 && teacher < 1.0)
        {
            return range(
                "beta",
                teacher,
                "between 0 and 1; the ends are the forward and reverse divergence",
            );
        }
        let Teacher::Told(told) = self.teacher else { return Ok(()) };
        for sample in samples.iter().filter(|s| s.trained() > 0) {
            let count = told.get(&sample.id).map_or(0, |t| t.top * sample.tokens.len());
            if told
                .get(&sample.id)
                .is_none_or(|t| t.top == 0 || t.ids.len() != count || t.logprobs.len() != count)
            {
                let reason =
                    format!("the teacher said nothing about sample {}, or not of every token", sample.id);
                return Err(TrainError::Options(reason));
            }
        }
        Ok(())
    }

    /// The gradient with respect to the hidden states, `[R, H]`; that of the output layer is added to `weight_grad`.
    ///
    /// * `weights`: the reduction's weight of each sample's tokens
    pub(crate) fn gradient(
        &self,
        output: &Output<'_>,
        weights: &[f64],
        temperature: f64,
        mut weight_grad: Option<&mut Tensor>,
    ) -> Result<(Tensor, Found), TrainError> {
        let (hidden, layout) = (output.hidden, output.layout);
        let (kind, device) = (hidden.kind(), hidden.device());
        let wide = wide(kind);
        let rows = layout.rows.len() as i64;
        // Rows that several samples share count once for each.
        let (mut weight, mut count, mut first) =
            (vec![0.0; layout.rows.len()], vec![0.0; layout.rows.len()], vec![None; layout.rows.len()]);
        for target in &layout.targets {
            weight[target.row] += weights[target.sample] * self.coefficient;
            count[target.row] += 1.0;
            first[target.row].get_or_insert(target);
        }
        let on_device = |list: &[f64]| Tensor::from_slice(list).to_device(device);
        let (weight, count) = (on_device(&weight), on_device(&count));
        let teacher = match self.teacher {
            Teacher::Model(model) => {
                let packed = match model.device() == device {
                    true => None,
                    false => Some(body::pack(layout, model.device())?),
                };
                Some(model.hidden(packed.as_ref().unwrap_or(output.packed), layout)?)
            }
            Teacher::Told(_) => None,
        };
        let vocabulary = output.weight.size()[0];
        let chunk = (ENTRIES / vocabulary.max(1)).max(1);
        let hidden_grad = Tensor::zeros(hidden.size(), (kind, device));
        let mut found = Found { loss: 0.0, divergence: 0.0 };
        for start in (0..rows).step_by(chunk as usize) {
            let length = chunk.min(rows - start);
            let part = |t: &Tensor| t.narrow(0, start, length);
            let logits = {
                let _guard = tch::no_grad_guard();
                head::logits(&part(hidden).to_kind(wide), output.weight) / temperature
            };
            let logits = logits.set_requires_grad(true);
            let (student, expected) = match (&teacher, self.teacher) {
                (Some(teacher), Teacher::Model(model)) => {
                    self.compared(&logits, &part(teacher), model, temperature)
                }
                (_, Teacher::Told(told)) => {
                    let targets = first[start as usize..(start + length) as usize].iter().flatten();
                    let (ids, known) =
                        said(told, targets.map(|t| (&output.samples[t.sample].id, t.position)));
                    let known = known.to_device(device).to_kind(wide);
                    (logits.log_softmax(-1, wide).gather(1, &ids.to_device(device), false), known)
                }
                (None, Teacher::Model(_)) => continue,
            };
            let rows = divergence(self.divergence, self.rest, &student, &expected).to_kind(Kind::Double);
            let loss = (&rows * part(&weight)).sum(Kind::Double);
            let grad = Tensor::f_run_backward(&[&loss], &[&logits], false, false)?.remove(0);
            let _guard = tch::no_grad_guard();
            let grad = grad / temperature;
            let mut slot = part(&hidden_grad);
            slot.copy_(&head::hidden_grad(&grad, output.weight));
            if let Some(total) = weight_grad.as_deref_mut() {
                head::add_weight_grad(total, &grad, &part(hidden).to_kind(wide));
            }
            found.loss += loss.double_value(&[]);
            found.divergence += (rows * part(&count)).sum(Kind::Double).double_value(&[]);
        }
        Ok((hidden_grad, found))
    }

    /// Log-probabilities of student, with its graph, and teacher over the support, `[n, K]` each.
    fn compared(
        &self,
        logits: &Tensor,
        hidden: &Tensor,
        model: &Frozen,
        temperature: f64,
    ) -> (Tensor, Tensor) {
        let kind = logits.kind();
        let mut expected = {
            let _guard = tch::no_grad_guard();
            let logits_there = head::logits(&hidden.to_kind(kind), &model.head);
            logits_there.to_device(logits.device()) / temperature
        };
        // Output layers are padded to round sizes; no tokenizer has the words beyond the smaller one.
        let common = logits.size()[1].min(expected.size()[1]);
        let student = logits.narrow(1, 0, common).log_softmax(-1, kind);
        expected = expected.narrow(1, 0, common).log_softmax(-1, kind);
        let among = |t: &Tensor, top: usize| t.detach().topk((top as i64).min(common), -1, true, false).1;
        let ids = match self.support {
            Support::All => return (student, expected),
            Support::Teacher { top } => among(&expected, top),
            Support::Student { top } => among(&student, top),
        };
        (student.gather(1, &ids, false), expected.gather(1, &ids, false))
    }
}

/// What the teacher said at some tokens, as ids and log-probabilities `[n, top]`. [`Distillation::check`] has seen
/// that it is there; `top` may differ between samples, and what is missing has no probability.
fn said<'s>(
    told: &HashMap<SampleId, Told>,
    at: impl Iterator<Item = (&'s SampleId, usize)>,
) -> (Tensor, Tensor) {
    let lists: Vec<(&[u32], &[f32])> = at
        .map(|(id, position)| match told.get(id) {
            Some(told) => {
                let range = position * told.top..(position + 1) * told.top;
                (&told.ids[range.clone()], &told.logprobs[range])
            }
            None => (&[][..], &[][..]),
        })
        .collect();
    let top = lists.iter().map(|(ids, _)| ids.len()).max().unwrap_or(0);
    let (mut ids, mut logprobs) = (Vec::new(), Vec::new());
    for (some, known) in &lists {
        ids.extend((0..top).map(|k| some.get(k).map_or(0, |&id| i64::from(id))));
        logprobs.extend((0..top).map(|k| known.get(k).map_or(NEVER, |&lp| lp)));
    }
    let shape = [lists.len() as i64, top as i64];
    (Tensor::from_slice(&ids).view(shape), Tensor::from_slice(&logprobs).view(shape))
}

/// The logarithm of next to nothing, which stays finite in every sum.
const NEVER: f32 = -100.0;
