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
    /// Named values; a lone one, or one named `reward`, is the reward.
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
    /// The reward of a scored sample: the weighted sum of its components. Where `weights` is silent, a
    /// component weighs 1; but beside one named `reward`, the others weigh nothing: they say how it
    /// came about.
    pub fn reward(&self, weights: &[(String, f64)]) -> Option<f64> {
        let Outcome::Scored(grade) = self else { return None };
        let main = grade.components.iter().any(|c| c.name == "reward");
        let silent = |name: &str| if main && name != "reward" { 0.0 } else { 1.0 };
        let weight =
            |name: &str| weights.iter().find(|(n, _)| n == name).map_or_else(|| silent(name), |(_, w)| *w);
        Some(grade.components.iter().map(|c| weight(&c.name) * c.value).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(components: &[(&str, f64)]) -> Outcome {
        let components =
            components.iter().map(|(name, value)| Component { name: (*name).into(), value: *value });
        Outcome::Scored(Grade { components: components.collect(), spans: Vec::new(), note: None })
    }

    #[test]
    fn components_add_up_unless_one_of_them_is_the_reward() {
        let weights = [("b".to_owned(), 0.5)];
        assert_eq!(scored(&[("a", 1.0), ("b", 3.0)]).reward(&[]), Some(4.0));
        assert_eq!(scored(&[("a", 1.0), ("b", 3.0)]).reward(&weights), Some(2.5));
        assert_eq!(scored(&[("reward", 1.0), ("b", 3.0)]).reward(&[]), Some(1.0));
        assert_eq!(scored(&[("reward", 1.0), ("b", 3.0)]).reward(&weights), Some(2.5));
    }
}
