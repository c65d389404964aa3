//! Log-probabilities of sampled tokens, and their gradient, a chunk of rows at a time.
//!
//! The logits of a batch are by far its largest tensor (2,000 rows of a 150,000 word vocabulary are
//! 1.2 GB in fp32), yet each is needed only for one sum and one entry. So they exist for
//! [`CHUNK`] rows at a time, and are computed anew in backward, whose formula is short enough to
//! write down: with `p = softmax(z / T)`, `∂ log p_y / ∂ z = (1_y - p) / T`.

use crate::layout::Layout;
use tch::{Kind, Tensor};

/// Rows whose logits exist at once.
const CHUNK: usize = 256;

/// Where each chunk's rows and targets lie.
struct Chunk {
    rows: std::ops::Range<usize>,
    /// `[n]`, row within the chunk of each target.
    row: Tensor,
    /// `[n]`, token of each target.
    token: Tensor,
    /// Targets of the chunk, as a range of all.
    targets: std::ops::Range<usize>,
}

/// The output layer over the rows of one micro-batch.
pub(crate) struct Head<'a> {
    /// `[V, H]`.
    weight: &'a Tensor,
    temperature: f64,
    chunks: Vec<Chunk>,
}

/// What forward yields.
pub(crate) struct LogProbs {
    /// `[N]`, log-probability of every target, f64.
    pub targets: Tensor,
    /// `[N]`, entropy of the distribution every target was drawn from, in nats.
    pub entropy: Tensor,
    /// `[R]`, `log Σ exp(z / T)` of every row; backward starts from it.
    normaliser: Tensor,
}

impl<'a> Head<'a> {
    /// `weight`: `[V, H]`; `temperature`: that of the rollout, so that both speak of one distribution.
    pub fn new(weight: &'a Tensor, temperature: f64, layout: &Layout) -> Head<'a> {
        let device = weight.device();
        let (rows, targets) = (layout.rows.len(), &layout.targets);
        let chunks = (0..rows).step_by(CHUNK).map(|start| {
            let rows = start..(start + CHUNK).min(rows);
            let begin = targets.partition_point(|t| t.row < rows.start);
            let end = targets.partition_point(|t| t.row < rows.end);
            let part = &targets[begin..end];
            let row: Vec<i64> = part.iter().map(|t| (t.row - rows.start) as i64).collect();
            let token: Vec<i64> = part.iter().map(|t| i64::from(t.token)).collect();
            Chunk {
                rows,
                row: Tensor::from_slice(&row).to_device(device),
                token: Tensor::from_slice(&token).to_device(device),
                targets: begin..end,
            }
        });
        Head { weight, temperature, chunks: chunks.collect() }
    }

    /// `hidden`: `[R, H]`, one row per predicting row of the layout.
    pub fn forward(&self, hidden: &Tensor) -> LogProbs {
        let _guard = tch::no_grad_guard();
        let (mut targets, mut entropy, mut normaliser) = (Vec::new(), Vec::new(), Vec::new());
        for chunk in &self.chunks {
            let mut logits = self.logits(hidden, chunk);
            let largest = logits.amax([1], true);
            logits -= &largest;
            let chosen = logits.index(&[Some(&chunk.row), Some(&chunk.token)]);
            let exponentials = logits.exp();
            let sum = exponentials.sum_dim_intlist([1].as_slice(), false, None::<Kind>);
            // In f64: a log-probability of -4 has no more than 7 digits in f32, and a ratio all its errors.
            let log_sum = sum.to_kind(Kind::Double).log();
            // H = log Σe - Σ e z / Σe, with z counted from the largest logit.
            let expected = logits.g_mul_(&exponentials).sum_dim_intlist([1].as_slice(), false, None::<Kind>);
            let row_entropy = &log_sum - expected / sum;
            targets.push(chosen - log_sum.index_select(0, &chunk.row));
            entropy.push(row_entropy.index_select(0, &chunk.row));
            normaliser.push(log_sum + largest.squeeze_dim(1));
        }
        LogProbs {
            targets: Tensor::cat(&targets, 0),
            entropy: Tensor::cat(&entropy, 0),
            normaliser: Tensor::cat(&normaliser, 0),
        }
    }

    /// The gradient with respect to `hidden`, `[R, H]`.
    ///
    /// * `grad`: `[N]` f64, gradient of the loss with respect to every target's log-probability
    /// * `weight_grad`: where the weight's gradient `[V, H]` is added, if it is trained
    pub fn backward(
        &self,
        hidden: &Tensor,
        forward: &LogProbs,
        grad: &Tensor,
        mut weight_grad: Option<&mut Tensor>,
    ) -> Tensor {
        let _guard = tch::no_grad_guard();
        let kind = hidden.kind();
        let grad = grad / self.temperature;
        let mut hidden_grads = Vec::new();
        for chunk in &self.chunks {
            let grad = grad.narrow(0, chunk.targets.start as i64, chunk.targets.len() as i64);
            let rows = chunk.rows.len() as i64;
            let per_row = Tensor::zeros([rows], (grad.kind(), grad.device())).index_add(0, &chunk.row, &grad);
            let mut logits = self.logits(hidden, chunk);
            let wide = logits.kind();
            let (per_row, grad) = (per_row.to_kind(wide), grad.to_kind(wide));
            logits -= forward.normaliser.narrow(0, chunk.rows.start as i64, rows).to_kind(wide).unsqueeze(1);
            let mut logit_grad = logits.exp_().g_mul_(&per_row.neg().unsqueeze(1));
            let logit_grad =
                logit_grad.index_put_(&[Some(&chunk.row), Some(&chunk.token)], &grad, true).to_kind(kind);
            hidden_grads.push(logit_grad.matmul(self.weight));
            if let Some(total) = weight_grad.as_deref_mut() {
                let part = logit_grad.tr().matmul(&hidden.narrow(0, chunk.rows.start as i64, rows));
                let _ = total.g_add_(&part);
            }
        }
        Tensor::cat(&hidden_grads, 0)
    }

    /// `z / T` of a chunk's rows in at least f32, `[rows, V]`.
    fn logits(&self, hidden: &Tensor, chunk: &Chunk) -> Tensor {
        let rows = hidden.narrow(0, chunk.rows.start as i64, chunk.rows.len() as i64);
        let logits = rows.linear(self.weight, None::<&Tensor>);
        let mut logits = if logits.kind() == Kind::Double { logits } else { logits.to_kind(Kind::Float) };
        if self.temperature == 1.0 { logits } else { logits.g_div_scalar_(self.temperature) }
    }
}
