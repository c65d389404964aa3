//! `[judge]`: language models that plugins may ask.

use crate::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

/// A language model behind an OpenAI-compatible endpoint, for plugins that are granted `judge`.
///
/// Every answer is kept in `judge-cache.jsonl` of the run directory: the same question is asked once, and a resumed or re-scored run has the same answers for free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Judge {
    /// The name by which grants (`judge:NAME`) and plugins ask for it; a plugin that names none gets the first.
    #[serde(default = "first")]
    #[schemars(length(min = 1))]
    pub route: String,
    /// The server's address, up to what comes before `/chat/completions`.
    #[schemars(length(min = 1), extend("examples" = ["https://api.example.com/v1", "http://localhost:8000/v1"]))]
    pub base_url: String,
    /// The model, as the server names it.
    #[schemars(length(min = 1))]
    pub model: String,
    /// The environment variable that holds the server's key. The key itself is written nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["JUDGE_API_KEY"]))]
    pub api_key_env: Option<String>,
    /// Requests at once.
    #[serde(default = "eight")]
    #[schemars(range(min = 1, max = 1024))]
    pub concurrency: usize,
    /// Requests per minute, repetitions included; as many as come unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub requests_per_minute: Option<u32>,
    /// Tokens of questions and answers in the whole run, resumed parts included; unbounded unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub token_budget: Option<u64>,
    /// Times that a request is repeated when its failure may pass (no connection, 408, 409, 425, 429, 5xx).
    #[serde(default = "three")]
    #[schemars(range(max = 100))]
    pub retries: u32,
    /// Time of one request. All requests of one plugin call together wait no longer than the plugin's `limits.wait`.
    #[serde(default = "a_minute")]
    pub timeout: Time,
    /// Longest answer that a plugin may ask for, in tokens; thoughts count.
    #[serde(default = "tokens")]
    #[schemars(range(min = 1))]
    pub max_tokens: u32,
    /// Highest temperature that a plugin may ask for.
    #[serde(default = "two")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub max_temperature: f64,
    /// Further keys of every request, as the server knows them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

impl Judge {
    /// Keys of a request that `extra` cannot hold, since others decide them.
    pub const DECIDED: [&str; 6] = ["max_tokens", "messages", "model", "n", "stream", "temperature"];
}

fn first() -> String {
    "default".into()
}

fn eight() -> usize {
    8
}

fn three() -> u32 {
    3
}

fn a_minute() -> Time {
    Time(Duration::from_secs(60))
}

fn tokens() -> u32 {
    4096
}

fn two() -> f64 {
    2.0
}
