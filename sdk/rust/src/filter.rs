//! Decide which rows enter the data and which groups enter a batch.

use crate::{Error, Group, Message};

/// A row of data before any rollout.
#[derive(Clone, Debug)]
pub struct Row {
    /// Stable identity.
    pub id: String,
    /// The conversation.
    pub prompt: Vec<Message>,
    /// The reference answer, if the row has one.
    pub label: Option<String>,
    /// The row's other columns: a JSON object, as text.
    pub metadata: String,
    /// Tokens of the rendered prompt.
    pub prompt_tokens: u32,
}

/// A group with the rewards that it got.
#[derive(Clone, Debug)]
pub struct ScoredGroup {
    /// The rollouts.
    pub group: Group,
    /// One per sample; `None` where a sample has no score.
    pub rewards: Vec<Option<f64>>,
}

/// Whether to keep a row or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Keep it.
    pub keep: bool,
    /// Short and stable: it becomes a metric's name.
    pub reason: String,
    /// For a group: use it anyway when too few groups pass.
    pub keep_if_short: bool,
}

impl Verdict {
    /// Keep it.
    pub fn keep() -> Self {
        Verdict { keep: true, reason: "kept".into(), keep_if_short: true }
    }

    /// Drop it.
    pub fn drop(reason: impl Into<String>) -> Self {
        Verdict { keep: false, reason: reason.into(), keep_if_short: false }
    }

    /// Drop it, unless too few groups pass.
    pub fn spare(reason: impl Into<String>) -> Self {
        Verdict { keep: false, reason: reason.into(), keep_if_short: true }
    }
}

/// Decides what is trained on. Both methods keep everything unless they are written.
pub trait Filter {
    /// One verdict per row, in order.
    fn keep_rows(&self, rows: &[Row]) -> Result<Vec<Verdict>, Error> {
        Ok(vec![Verdict::keep(); rows.len()])
    }

    /// One verdict per group, in order.
    fn keep_groups(&self, groups: &[ScoredGroup]) -> Result<Vec<Verdict>, Error> {
        Ok(vec![Verdict::keep(); groups.len()])
    }
}

/// Makes a type that implements [`Filter`] the plugin of this crate; see [`reward!`](crate::reward!).
#[macro_export]
macro_rules! filter {
    ($plugin:ident $($configured:tt)*) => {
        $crate::__plugin!(filter, $crate::Descriptor::new, $plugin $($configured)*);
    };
}
