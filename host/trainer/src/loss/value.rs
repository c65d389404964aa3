//! The critic's loss.

use tch::Tensor;

/// How far a value is from its return.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueError {
    /// `x²`.
    Squared,
    /// `x² / 2` up to `delta`, then a line (AReaL's option, with 10).
    Huber {
        /// Where the line begins.
        delta: f64,
    },
}

/// `factor · max(e(V - R), e(V_clipped - R))` with `V_clipped` at most `clip` from the old value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueLoss {
    /// Bound on the change of a value, if any.
    pub clip: Option<f64>,
    /// The error.
    pub error: ValueError,
    /// 0.5 in verl, OpenRLHF, LightRFT, NeMo RL and AReaL; 1 in slime and Relax.
    pub factor: f64,
}

/// The loss of every token, and where the clipped value decided it.
pub fn value(loss: ValueLoss, values: &Tensor, old: &Tensor, returns: &Tensor) -> (Tensor, Tensor) {
    let error = |v: &Tensor| {
        let x = v - returns;
        match loss.error {
            ValueError::Squared => x.square(),
            ValueError::Huber { delta } => {
                let (near, far) = (x.square() * 0.5, x.abs() * delta - 0.5 * delta * delta);
                near.where_self(&x.abs().le(delta), &far)
            }
        }
    };
    let free = error(values);
    let Some(clip) = loss.clip else {
        let never = free.detach().isnan();
        return (free * loss.factor, never);
    };
    let clipped = error(&values.maximum(&(old - clip)).minimum(&(old + clip)));
    let decided = clipped.detach().gt_tensor(&free.detach());
    (free.maximum(&clipped) * loss.factor, decided)
}
