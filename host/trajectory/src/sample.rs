//! Finished rollouts as a reward sees them.

use crate::{Component, GroupId, Message, SampleId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinishReason {
    /// A stop id or stop text.
    Stop,
    /// The token limit.
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
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Results are joined on it.
    pub id: SampleId,
    /// The model's messages and what came back to it, after the prompt.
    pub completion: Vec<Message>,
    /// Text of the last assistant message, without special tokens.
    pub response: String,
    /// Why generation ended.
    pub finish: FinishReason,
    /// Tokens before the first sampled one.
    pub prompt_tokens: u32,
    /// Tokens after the prompt.
    pub response_tokens: u32,
    /// Assistant messages.
    pub turns: u32,
    /// Rewards that the environment gave along the way, by name.
    pub environment_rewards: Vec<Component>,
}

/// All rollouts of one prompt. A lone sample is a group of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The group's identity.
    pub id: GroupId,
    /// The conversation before the rollouts.
    pub prompt: Vec<Message>,
    /// The reference answer, exactly as the data has it, if the row has one.
    pub label: Option<String>,
    /// The row's other columns.
    pub metadata: Map<String, Value>,
    /// The rollouts.
    pub samples: Vec<Sample>,
}
