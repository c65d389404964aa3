//! The judges of a run: where the recipe says, with the keys that its environment holds, remembered in its
//! directory.

use crate::RunError;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use whet_http::{Egress, Key};
use whet_judge::{Endpoint, Judges, Memory, address};
use whet_plugin_host::Services;
use whet_recipe::{Judge, Recipe};

/// The file of the run directory that holds every answer of a judge.
pub const ANSWERS: &str = "judge-cache.jsonl";

/// What the run directory records about a judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgeRecord {
    /// The name by which plugins ask for it.
    pub route: String,
    /// The server.
    pub base_url: String,
    /// The model, as the server names it.
    pub model: String,
}

/// Whoever answers what the plugins of this recipe ask.
pub fn services(recipe: &Recipe, memory: Memory<'_>) -> Result<Services, RunError> {
    let mut services = Services { http: Some(Arc::new(Egress)), judge: None };
    if !recipe.judge.is_empty() {
        let endpoints = recipe.judge.iter().map(endpoint).collect::<Result<Vec<_>, _>>()?;
        services.judge = Some(Arc::new(Judges::new(endpoints, memory)?));
    }
    Ok(services)
}

/// What is written down about the judges; no key is among it.
pub fn records(recipe: &Recipe) -> Vec<JudgeRecord> {
    let record = |judge: &Judge| JudgeRecord {
        route: judge.route.clone(),
        base_url: judge.base_url.clone(),
        model: judge.model.clone(),
    };
    recipe.judge.iter().map(record).collect()
}

fn endpoint(judge: &Judge) -> Result<Endpoint, RunError> {
    let refused = |reason: String| RunError::Judge { route: judge.route.clone(), reason };
    let key = judge.api_key_env.as_deref().map(Key::from_env).transpose();
    Ok(Endpoint {
        route: judge.route.clone(),
        base_url: address(&judge.base_url).map_err(|e| refused(e.to_string()))?,
        model: judge.model.clone(),
        key: key.map_err(|e| refused(e.to_string()))?,
        concurrency: judge.concurrency,
        requests_per_minute: judge.requests_per_minute,
        token_budget: judge.token_budget,
        retries: judge.retries,
        timeout: judge.timeout.0,
        max_tokens: judge.max_tokens,
        max_temperature: judge.max_temperature,
        extra: judge.extra.clone(),
    })
}
