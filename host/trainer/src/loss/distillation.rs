//! Divergences of a student's distribution from a teacher's, over the vocabulary or the part of it that is known.
//!
//! Inputs are log-probabilities `[N, K]` of the same `K` tokens; results are `[N]`, in nats.

use tch::{Kind, Tensor};

/// Which divergence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Divergence {
    /// `KL(teacher || student)`: the student covers what the teacher does.
    Forward,
    /// `KL(student || teacher)`: the student keeps to what the teacher would do.
    Reverse,
    /// `β KL(teacher || M) + (1 - β) KL(student || M)` with `M = β teacher + (1 - β) student` (GKD, arXiv 2306.13649).
    /// TRL's `beta` is `β`, with the forward divergence at 0 and the reverse at 1; Relax's `alpha` has them the
    /// other way round.
    Jensen {
        /// `β`, the teacher's weight.
        teacher: f64,
    },
}

/// What becomes of the probability outside the `K` tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It is left out; exact where `K` is the vocabulary.
    Dropped,
    /// It is one more outcome (Relax `tail`).
    Bin,
    /// Both distributions are made to sum to 1 without it.
    Renormalised,
}

/// The divergence of every row.
pub fn divergence(kind: Divergence, rest: Rest, student: &Tensor, teacher: &Tensor) -> Tensor {
    let whole = |t: &Tensor| match rest {
        Rest::Dropped => t.shallow_clone(),
        Rest::Renormalised => t - t.logsumexp([-1i64].as_slice(), true),
        Rest::Bin => {
            // A mass of 1 leaves nothing for the rest; its logarithm is kept finite.
            let mass = t.logsumexp([-1i64].as_slice(), true).clamp_max(-1e-7);
            Tensor::cat(&[t.shallow_clone(), (-mass.expm1()).log()], -1)
        }
    };
    let (s, t) = (whole(student), whole(teacher));
    let kl =
        |p: &Tensor, q: &Tensor| (p.exp() * (p - q)).sum_dim_intlist([-1i64].as_slice(), false, None::<Kind>);
    match kind {
        Divergence::Forward => kl(&t, &s),
        Divergence::Reverse => kl(&s, &t),
        Divergence::Jensen { teacher } => {
            let mixture = (&s + (1.0 - teacher).ln()).logaddexp(&(&t + teacher.ln()));
            kl(&t, &mixture) * teacher + kl(&s, &mixture) * (1.0 - teacher)
        }
    }
}

/// What the reverse divergence costs outside the `K` tokens where the teacher is taken to be all but impossible there,
/// at log-probability `-penalty`: `Σ_rest p_S log p_S + penalty Σ_rest p_S` (NeMo RL `zero_outside_topk`, with 100).
///
/// * `student`: log-probabilities of the vocabulary, `[N, V]`; `inside`: those of the `K` tokens
pub fn outside(student: &Tensor, inside: &Tensor, penalty: f64) -> Tensor {
    let sum = |t: &Tensor| t.sum_dim_intlist([-1i64].as_slice(), false, None::<Kind>);
    let entropy = |t: &Tensor| sum(&(t.exp() * t));
    let rest = sum(&student.exp()) - sum(&inside.exp());
    entropy(student) - entropy(inside) + rest * penalty
}
