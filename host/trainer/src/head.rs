//! Log-probabilities of sampled tokens, and their gradient, a part of the vocabulary at a time.
//!
//! The logits of a batch are by far its largest tensor (2,000 rows of a 150,000 word vocabulary are
//! 1.2 GB in fp32), yet each is needed only for a few sums and one entry. So they exist for [`WORDS`] words
//! at a time, and are computed anew in backward, whose formula is short enough to write down: with
//! `p = softmax(z / T)`, `∂ log p_y / ∂ z = (1_y - p) / T`. Parts are cut from the vocabulary rather than
//! from the rows, so that every part of the weight's gradient is added to once, and no copy of it exists.

use crate::layout::Layout;
use tch::{Kind, Tensor};
use whet_model::cpu::products;

/// Words whose logits exist at once.
const WORDS: i64 = 4096;

/// A part of the vocabulary, and the targets that lie in it.
struct Part {
    first: i64,
    words: i64,
    /// `[n]`, index of each of its targets among all.
    target: Tensor,
    /// `[n]`, row of each.
    row: Tensor,
    /// `[n]`, word of each, counted from the part's first.
    word: Tensor,
}

/// The output layer over the rows of one micro-batch.
pub(crate) struct Head<'a> {
    /// `[V, H]`.
    weight: &'a Tensor,
    temperature: f64,
    /// `[N]`, row of every target.
    row: Tensor,
    parts: Vec<Part>,
}

/// What forward yields.
pub(crate) struct LogProbs {
    /// `[N]`, log-probability of every target, f64.
    pub targets: Tensor,
    /// `[N]`, entropy of the distribution every target was drawn from, in nats.
    pub entropy: Tensor,
    /// `[R]`, entropy of every row.
    row_entropy: Tensor,
    /// `[R]`, the largest logit of every row, and `log Σ exp((z - largest) / T)`; backward starts from them. Apart, since at a
    /// low temperature their sum has no digits left for a log-probability.
    largest: Tensor,
    log_sum: Tensor,
}

/// What is known of every row's distribution after some parts, `[R]` f64 each, with `y = (z - m) / T`.
struct Sums {
    /// The largest logit `m`.
    largest: Tensor,
    /// `Σ exp y`.
    sum: Tensor,
    /// `Σ y exp y`.
    weighted: Tensor,
}

impl Sums {
    /// Those of a part, whose logits `[R, words]` are used up.
    fn of(mut logits: Tensor, temperature: f64) -> Sums {
        let largest = logits.amax([1], true);
        logits -= &largest;
        scale(&mut logits, temperature);
        let exponentials = logits.exp();
        let over_words =
            |t: &Tensor| t.sum_dim_intlist([1].as_slice(), false, None::<Kind>).to_kind(Kind::Double);
        Sums {
            largest: largest.squeeze_dim(1).to_kind(Kind::Double),
            sum: over_words(&exponentials),
            weighted: over_words(&logits.g_mul_(&exponentials)),
        }
    }

    /// Those of both, counted from the larger of their maxima.
    fn join(self, other: Sums, temperature: f64) -> Sums {
        let largest = self.largest.maximum(&other.largest);
        let [a, b] = [self, other].map(|s| {
            let down = (s.largest - &largest) / temperature;
            let scale = down.exp();
            (&s.sum * &scale, (s.weighted + s.sum * down) * scale)
        });
        Sums { largest, sum: a.0 + b.0, weighted: a.1 + b.1 }
    }
}

impl<'a> Head<'a> {
    /// `weight`: `[V, H]`; `temperature`: that of the rollout, so that both speak of one distribution.
    pub fn new(weight: &'a Tensor, temperature: f64, layout: &Layout) -> Head<'a> {
        let list = |values: Vec<i64>| Tensor::from_slice(&values).to_device(weight.device());
        let vocabulary = weight.size()[0];
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); vocabulary.div_euclid(WORDS) as usize + 1];
        for (index, target) in layout.targets.iter().enumerate() {
            members[(i64::from(target.token) / WORDS) as usize].push(index);
        }
        let parts = (0..vocabulary).step_by(WORDS as usize).zip(members).map(|(first, members)| Part {
            first,
            words: WORDS.min(vocabulary - first),
            target: list(members.iter().map(|&n| n as i64).collect()),
            row: list(members.iter().map(|&n| layout.targets[n].row as i64).collect()),
            word: list(members.iter().map(|&n| i64::from(layout.targets[n].token) - first).collect()),
        });
        let parts = parts.collect();
        let row = list(layout.targets.iter().map(|t| t.row as i64).collect());
        Head { weight, temperature, row, parts }
    }

    /// `hidden`: `[R, H]`, one row per predicting row of the layout.
    pub fn forward(&self, hidden: &Tensor) -> LogProbs {
        let _guard = tch::no_grad_guard();
        let mut chosen = self.row.zeros_like().to_kind(Kind::Double);
        let mut total: Option<Sums> = None;
        for part in &self.parts {
            let logits = self.logits(hidden, part);
            let found = logits.index(&[Some(&part.row), Some(&part.word)]).to_kind(Kind::Double);
            let _ = chosen.index_copy_(0, &part.target, &found);
            let sums = Sums::of(logits, self.temperature);
            total = Some(match total {
                Some(total) => total.join(sums, self.temperature),
                None => sums,
            });
        }
        // A vocabulary without words has no targets either.
        let Some(Sums { largest, sum, weighted }) = total else {
            let [targets, entropy, row_entropy, largest] = [(); 4].map(|()| chosen.copy());
            return LogProbs { targets, entropy, row_entropy, largest, log_sum: chosen };
        };
        // In f64: a log-probability of -4 has no more than 7 digits in f32, and a ratio all its errors.
        let log_sum = sum.log();
        // H = log Σ exp y - Σ y exp y / Σ exp y.
        let entropy = &log_sum - weighted / sum;
        let of_target = |rows: &Tensor| rows.index_select(0, &self.row);
        LogProbs {
            targets: (chosen - of_target(&largest)) / self.temperature - of_target(&log_sum),
            entropy: of_target(&entropy),
            row_entropy: entropy,
            largest,
            log_sum,
        }
    }

    /// `Σ p²` of the distribution every target was drawn from, `[N]`.
    pub fn squares(&self, hidden: &Tensor, forward: &LogProbs) -> Tensor {
        let _guard = tch::no_grad_guard();
        let mut total = forward.log_sum.zeros_like();
        for part in &self.parts {
            let mut logits = self.log_distribution(hidden, part, forward);
            let squares = logits.g_mul_scalar_(2.0).exp_();
            total += squares.sum_dim_intlist([1].as_slice(), false, None::<Kind>).to_kind(Kind::Double);
        }
        total.index_select(0, &self.row)
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
        weight_grad: Option<&mut Tensor>,
    ) -> Tensor {
        self.backward_both(hidden, forward, grad, None, weight_grad)
    }

    /// The same where the loss also depends on the entropy `H` of every target's distribution, whose gradient `[N]` is
    /// `entropy_grad`: `∂H / ∂z = -p (log p + H) / T`.
    pub fn backward_both(
        &self,
        hidden: &Tensor,
        forward: &LogProbs,
        grad: &Tensor,
        entropy_grad: Option<&Tensor>,
        mut weight_grad: Option<&mut Tensor>,
    ) -> Tensor {
        let _guard = tch::no_grad_guard();
        let kind = hidden.kind();
        let wide = wide(kind);
        let per_row = |grad: &Tensor| {
            let grad = grad / self.temperature;
            forward.log_sum.zeros_like().index_add(0, &self.row, &grad)
        };
        let column = |t: &Tensor| t.to_kind(wide).unsqueeze(1);
        let negated = column(&per_row(grad).neg());
        let entropy = entropy_grad.map(|grad| {
            let per_row = per_row(grad);
            (column(&(&per_row * &forward.row_entropy)), column(&per_row))
        });
        let grad = (grad / self.temperature).to_kind(wide);
        let mut hidden_grad = Tensor::zeros(hidden.size(), (wide, hidden.device()));
        for part in &self.parts {
            let mut logits = self.log_distribution(hidden, part, forward);
            let factor = entropy.as_ref().map(|(constant, slope)| &negated - constant - &logits * slope);
            let mut logit_grad = logits.exp_().g_mul_(factor.as_ref().unwrap_or(&negated));
            let own = grad.index_select(0, &part.target);
            let logit_grad =
                logit_grad.index_put_(&[Some(&part.row), Some(&part.word)], &own, true).to_kind(kind);
            hidden_grad += logit_grad.matmul(&self.words(part));
            if let Some(total) = weight_grad.as_deref_mut() {
                let mut total = total.narrow(0, part.first, part.words);
                let _ = total.g_add_(&logit_grad.tr().matmul(hidden));
            }
        }
        hidden_grad.to_kind(kind)
    }

    /// The weight's rows of a part, `[words, H]`.
    fn words(&self, part: &Part) -> Tensor {
        self.weight.narrow(0, part.first, part.words)
    }

    /// `z` of all rows for a part, `[R, words]`, in at least f32: rounded to bf16, logits of 20 would stand in steps of 1/8,
    /// and rollout and trainer on different ones.
    fn logits(&self, hidden: &Tensor, part: &Part) -> Tensor {
        exact_logits(hidden, &self.words(part))
    }

    /// `log p` of all rows for a part, once forward has seen all parts.
    fn log_distribution(&self, hidden: &Tensor, part: &Part, forward: &LogProbs) -> Tensor {
        let mut logits = self.logits(hidden, part);
        let column = |t: &Tensor| t.to_kind(wide(hidden.kind())).unsqueeze(1);
        logits -= column(&forward.largest);
        scale(&mut logits, self.temperature);
        logits -= column(&forward.log_sum);
        logits
    }
}

fn scale(logits: &mut Tensor, temperature: f64) {
    if temperature != 1.0 {
        let _ = logits.g_div_scalar_(temperature);
    }
}

/// `hidden W^T` in at least f32; each row by itself where there are kernels for that, so that what a rule over the batch
/// decides does not depend on how the batch is cut.
fn exact_logits(hidden: &Tensor, words: &Tensor) -> Tensor {
    match products(hidden, words) {
        Ok(Some(logits)) => logits,
        _ => {
            let kind = wide(hidden.kind());
            hidden.to_kind(kind).linear(&words.to_kind(kind), None::<&Tensor>)
        }
    }
}

/// Parts of an output layer's weight `[V, H]`, each as its first word and in `kind`.
fn parts(weight: &Tensor, kind: Kind) -> impl Iterator<Item = (i64, Tensor)> + '_ {
    let vocabulary = weight.size()[0];
    (0..vocabulary)
        .step_by(WORDS as usize)
        .map(move |first| (first, weight.narrow(0, first, WORDS.min(vocabulary - first)).to_kind(kind)))
}

/// The logits of few rows, `[n, V]` in the kind of `hidden` `[n, H]`.
pub(crate) fn logits(hidden: &Tensor, weight: &Tensor) -> Tensor {
    let part = |(_, words): (i64, Tensor)| hidden.linear(&words, None::<&Tensor>);
    Tensor::cat(&parts(weight, hidden.kind()).map(part).collect::<Vec<Tensor>>(), 1)
}

/// The gradient at the hidden states, `[n, H]`, of one at the logits, `[n, V]`.
pub(crate) fn hidden_grad(grad: &Tensor, weight: &Tensor) -> Tensor {
    let mut total = Tensor::zeros([grad.size()[0], weight.size()[1]], (grad.kind(), grad.device()));
    for (first, words) in parts(weight, grad.kind()) {
        total += grad.narrow(1, first, words.size()[0]).matmul(&words);
    }
    total
}

/// Adds `gradᵀ hidden` to the gradient `[V, H]` of an output layer, a part of the vocabulary at a time, so that no
/// copy of it exists.
///
/// * `grad`: `[n, V]`, at the logits; `hidden`: `[n, H]`
pub(crate) fn add_weight_grad(total: &mut Tensor, grad: &Tensor, hidden: &Tensor) {
    let vocabulary = grad.size()[1];
    for first in (0..vocabulary).step_by(WORDS as usize) {
        let words = WORDS.min(vocabulary - first);
        let mut total = total.narrow(0, first, words);
        let _ = total.g_add_(&grad.narrow(1, first, words).tr().matmul(hidden));
    }
}

/// The kind that sums over words are computed in.
pub(crate) fn wide(kind: Kind) -> Kind {
    if kind == Kind::Double { Kind::Double } else { Kind::Float }
}
