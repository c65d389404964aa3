//! What a reward says about a sample. A failure is never a number.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A named value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Component {
    /// The component's name, as the plugin's descriptor declares it.
    pub name: String,
    /// A finite number.
    pub value: f64,
}

/// A value for a part of the response: a range of bytes of `Sample::response`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
    /// A finite number.
    pub value: f64,
}

/// A score and how it came about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Grade {
    /// Named values; a lone one is the reward.
    pub components: Vec<Component>,
    /// Rewards along the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Span>,
    /// What was extracted, or why it fell short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attribution {
    /// The plugin or its input.
    Plugin,
    /// The host.
    Host,
    /// A service that a capability called.
    Upstream,
}

/// Why a sample has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Short and stable, as in `cpu-timeout`: a metric's name.
    pub kind: String,
    /// One sentence for people.
    pub message: String,
    /// Whose fault it is.
    pub attribution: Attribution,
    /// Whether the same call may succeed when repeated.
    pub retryable: bool,
}

/// What a reward says about one sample. There is no number for "it failed".
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Graded.
    Scored(Grade),
    /// There is no right score.
    Unscorable {
        /// Why, for people.
        reason: String,
    },
    /// The plugin failed.
    Failed(Failure),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl Outcome {
    /// The reward of a scored sample: the weighted sum of its components (weight 1 where `weights` is silent).
    pub fn reward(&self, weights: &[(String, f64)]) -> Option<f64> {
        let Outcome::Scored(grade) = self else { return None };
        let weight = |name: &str| weights.iter().find(|(n, _)| n == name).map_or(1.0, |(_, w)| *w);
        Some(grade.components.iter().map(|c| weight(&c.name) * c.value).sum())
    }
}
