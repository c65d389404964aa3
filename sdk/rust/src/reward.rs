//! Score rollouts.

use crate::{Determinism, Group, Outcome};

/// Scores the rollouts of one prompt.
pub trait Reward {
    /// Names of the components that [`score`](Reward::score) may return.
    const COMPONENTS: &'static [&'static str] = &["reward"];

    /// How reproducible the scores are.
    const DETERMINISM: Determinism = Determinism::Pure;

    /// One outcome per sample, in order.
    fn score(&self, group: &Group) -> Vec<Outcome>;
}

/// Makes a type that implements [`Reward`] the plugin of this crate.
///
/// `reward!(Same)` takes a unit struct; `reward!(Short: Configured)` a type that implements
/// [`Configured`](crate::Configured).
#[macro_export]
macro_rules! reward {
    ($($plugin:tt)*) => { $crate::__plugin!(reward, $($plugin)*); };
}
