//! Ids as types of their own, so that none is passed for another.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Stable identity of one rollout within a run, as in `step3/row17/2`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SampleId(pub String);

/// Stable identity of all rollouts of one prompt in one step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupId(pub String);

/// Number of optimiser updates behind the weights that produced something; 0 before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WeightVersion(pub u64);

impl WeightVersion {
    /// The version after one more optimiser update.
    pub fn next(self) -> Self {
        WeightVersion(self.0 + 1)
    }
}

impl fmt::Display for SampleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for WeightVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl From<&str> for SampleId {
    fn from(id: &str) -> Self {
        SampleId(id.to_owned())
    }
}

impl From<&str> for GroupId {
    fn from(id: &str) -> Self {
        GroupId(id.to_owned())
    }
}
