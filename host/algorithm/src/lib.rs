//! Advantages, reward shaping and corrections on plain slices; knows nothing of tensors, async or wasm.
//!
//! Every function computes in `f64`, takes what its formula names and returns a fresh vector.
//! Three rules hold everywhere: a number that is not finite is no score and leaves every
//! statistic; masked values never matter; neither order nor partition of the input matters.
//!
//! * [`group`]: advantages of outcome rewards relative to their prompt group
//! * [`kl`]: estimators of the divergence from a reference, per token
//! * [`reduction`]: from token losses to the loss of a batch
//! * [`correction`]: weights for tokens sampled by another policy than the one trained

pub mod correction;
pub mod group;
pub mod kl;
pub mod reduction;

pub use correction::{Bounds, Correction, Level, Outside};
pub use group::{Baseline, Scale, Singleton, gdpo, group_relative};
pub use kl::{Kl, KlEstimator, KlGradient};
pub use reduction::Reduction;
