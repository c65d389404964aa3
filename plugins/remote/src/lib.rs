//! `remote`: a reward that a server computes.
//!
//! The recipe grants the server's host, as in `grants = ["http:rewards.example.com"]`. The plugin posts one
//! JSON object per sample and reads the score from the answer:
//!
//! ```text
//! POST {"id": "step3/row7/0", "prompt": [{"role": "user", "content": "2 + 2?"}], "response": "4",
//!       "label": "4", "metadata": {}, "finish": "stop", "response_tokens": 1}
//! 200  {"reward": 1.0, "note": "why"}                the reward
//!      {"components": {"correct": 1, "style": 0.5}}  several numbers: the reward is their weighted sum
//!      {"unscorable": "the label is no number"}      there is no right score
//! ```
//!
//! Anything else is an error and never 0: another status, no JSON, a reward that is no finite number (a text
//! and `true` are none), a component without a weight. Redirects are not followed.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `url` | needed | where to post |
//! | `headers` | none | sent with each request; the recipe is written into the run directory, so they are no place for secrets |
//! | `weights` | 1 each | what the server's components are worth; those that it may send and no others |
//! | `compat` | none | `"slime"`: the bodies of slime's and Relax's remote reward, `{"prompt", "response", "label", "metadata"}` with the prompt as text; a bare number is a reward too |
//!
//! How long a request may take is the recipe's `limits.wait`. Several samples are asked about at once.

mod wire;

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use whet_plugin::host::http::{Request, fetch};
use whet_plugin::{Configured, Determinism, Error, Group, Outcome, Reward, Sample, reward};
use wire::{Compat, Weights};

/// Bytes of an answer that an error quotes.
const QUOTED: usize = 200;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    weights: BTreeMap<String, f64>,
    compat: Option<Compat>,
}

struct Remote {
    url: String,
    headers: Vec<(String, String)>,
    weights: Weights,
    compat: Option<Compat>,
}

impl Configured for Remote {
    type Config = Config;
    const SCHEMA: &'static str = r#"{
  "type": "object",
  "properties": {
    "url": {"type": "string", "minLength": 1, "description": "where to post; its host must be granted"},
    "headers": {"type": "object", "additionalProperties": {"type": "string"}, "description": "sent with each request; no place for secrets"},
    "weights": {"type": "object", "additionalProperties": {"type": "number"}, "description": "what the server's components are worth, 1 each unless given; those that it may send"},
    "compat": {"enum": ["slime"], "description": "slime: the bodies of slime's and Relax's remote reward"}
  },
  "required": ["url"],
  "additionalProperties": false
}"#;

    fn new(config: Config) -> Result<Self, String> {
        if !config.url.starts_with("https://") && !config.url.starts_with("http://") {
            return Err("`url` must begin with https:// or http://".into());
        }
        let mut headers: Vec<(String, String)> = config.headers.into_iter().collect();
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            headers.push(("Content-Type".into(), "application/json".into()));
        }
        Ok(Remote { url: config.url, headers, weights: Weights(config.weights), compat: config.compat })
    }
}

impl Reward for Remote {
    const DETERMINISM: Determinism = Determinism::Recorded;

    fn score(&self, group: &Group) -> Vec<Outcome> {
        match group.metadata_as::<Map<String, Value>>() {
            Ok(metadata) => group.samples.iter().map(|s| self.outcome(group, s, &metadata)).collect(),
            Err(error) => group.all(Outcome::Failed(error)),
        }
    }
}

impl Remote {
    fn outcome(&self, group: &Group, sample: &Sample, metadata: &Map<String, Value>) -> Outcome {
        let body = wire::body(self.compat, group, sample, metadata);
        let request = Request {
            method: "POST".into(),
            url: self.url.clone(),
            headers: self.headers.clone(),
            body: body.to_string().into_bytes(),
        };
        let answer = match fetch(request) {
            Ok(answer) => answer,
            Err(failure) => return Outcome::Failed(failure.into()),
        };
        let said = || shown(&answer.body);
        if !(200..300).contains(&answer.status) {
            return failed(format!("the server answers {}: {}", answer.status, said()));
        }
        let Ok(value) = serde_json::from_slice::<Value>(&answer.body) else {
            return failed(format!("the server's answer is not JSON: {}", said()));
        };
        wire::outcome(self.compat, &value, &self.weights)
            .unwrap_or_else(|why| failed(format!("{why}: {}", said())))
    }
}

/// The server's failure, which another try may not meet.
fn failed(why: String) -> Outcome {
    Outcome::Failed(Error::Unavailable(why))
}

/// The beginning of an answer.
fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(QUOTED)]).into_owned();
    if body.len() > QUOTED { format!("{text}…") } else { text }
}

reward!(Remote: Configured);

#[cfg(test)]
mod tests;
