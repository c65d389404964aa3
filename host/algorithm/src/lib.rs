//! Advantages, reward shaping and corrections on plain slices; knows nothing of tensors, async or wasm.
//!
//! Every function computes in `f64`, takes what its formula names and returns a fresh vector.
//! Three rules hold everywhere: a number that is not finite is no score and leaves every
//! statistic; masked values never matter; neither order nor partition of the input matters.
//!
//! * [`group`]: advantages of outcome rewards relative to their prompt group
//! * [`tokens`]: advantages per token: returns, GAE, ReMax, distillation
//! * [`optimal`]: the optimal token baseline
//! * [`mod@whiten`]: mean 0 and deviation 1 over a batch's tokens
//! * [`shaping`]: rewards changed before advantages
//! * [`kl`]: estimators of the divergence from a reference, per token
//! * [`reduction`]: from token losses to the loss of a batch
//! * [`selection`]: rules over a whole batch that pick tokens
//! * [`correction`]: weights for tokens sampled by another policy than the one trained

pub mod correction;
pub mod group;
pub mod kl;
pub mod optimal;
pub mod reduction;
pub mod selection;
pub mod shaping;
pub mod tokens;
pub mod whiten;

pub use correction::{Bounds, Correction, Level, Outside};
pub use group::{Baseline, RunningBaselines, Scale, Singleton, gdpo, group_relative};
pub use kl::{Kl, KlEstimator, KlGradient};
pub use optimal::{Alignment, Trajectory, optimal_token_baseline};
pub use reduction::Reduction;
pub use tokens::Gae;
pub use whiten::{Guard, Normalisation, Span, Variance, Whitening, whiten};
