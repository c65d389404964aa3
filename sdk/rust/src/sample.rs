//! Finished rollouts as a plugin sees them.

use crate::{Component, Error, Message, Outcome};
use serde::de::DeserializeOwned;

/// Why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// A stop id or stop text.
    Stop,
    /// The token limit: the response is cut off.
    Length,
    /// The model called tools.
    ToolCalls,
    /// The limit of turns.
    MaxTurns,
    /// Cancelled from outside.
    Aborted,
    /// The environment ended the episode.
    Environment,
}

/// One finished rollout.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Stable identity; results are joined on it.
    pub id: String,
    /// The model's messages and what came back to it, after the prompt.
    pub completion: Vec<Message>,
    /// Text of the last assistant message, without special tokens.
    pub response: String,
    /// Why generation ended.
    pub finish: FinishReason,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens after the prompt.
    pub response_tokens: u32,
    /// Assistant messages.
    pub turns: u32,
    /// Rewards that the environment gave along the way, by name.
    pub environment_rewards: Vec<Component>,
}

/// All rollouts of one prompt. A lone sample is a group of one.
#[derive(Clone, Debug)]
pub struct Group {
    /// The group's identity.
    pub id: String,
    /// The conversation before the rollouts.
    pub prompt: Vec<Message>,
    /// The reference answer, exactly as the data has it, if the row has one.
    pub label: Option<String>,
    /// The row's other columns: a JSON object, as text.
    pub metadata: String,
    /// The rollouts.
    pub samples: Vec<Sample>,
}

impl Group {
    /// The same outcome for every sample.
    pub fn all(&self, outcome: Outcome) -> Vec<Outcome> {
        vec![outcome; self.samples.len()]
    }

    /// The row's other columns as a type.
    pub fn metadata_as<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let text = if self.metadata.is_empty() { "{}" } else { &self.metadata };
        serde_json::from_str(text).map_err(|e| Error::InvalidInput(format!("metadata: {e}")))
    }
}
