//! Score rollouts.

use crate::{Determinism, Group, Outcome};

/// Scores the rollouts of one prompt.
pub trait Reward {
    /// Names of the components that [`score`](Reward::score) may return.
    const COMPONENTS: &'static [&'static str] = &["reward"];

    /// How reproducible the scores are.
    const DETERMINISM: Determinism = Determinism::Pure;

    /// A sample's score depends on the other samples of its group. Where it does not, the host may
    /// score samples one by one after the call for their group has failed.
    const GROUP_WISE: bool = false;

    /// One outcome per sample, in order.
    fn score(&self, group: &Group) -> Vec<Outcome>;
}

/// Makes a type that implements [`Reward`] the plugin of this crate.
///
/// `reward!(Same)` takes a unit struct; `reward!(Short: Configured)` a type that implements
/// [`Configured`](crate::Configured).
#[macro_export]
macro_rules! reward {
    ($plugin:ident $($configured:tt)*) => {
        $crate::__plugin!(reward, $crate::Descriptor::reward::<$plugin>, $plugin $($configured)*);
    };
}
