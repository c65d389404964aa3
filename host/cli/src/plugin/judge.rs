//! Who answers `judge` when a plugin is tried without a recipe: a file, an endpoint, or nobody.

use super::{PluginFile, plugin_host};
use crate::words::plain;
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use whet_capability::Judge;
use whet_http::Key;
use whet_judge::{Canned, Endpoint, Judges, Memory, address};
use whet_plugin_host::{Grant, Grants};

/// Flags that name a judge. Each of them grants `judge`.
#[derive(Debug, Args)]
pub struct JudgeArgs {
    /// Answer the plugin's judge from this file instead of a model: lines `{"id": "1", "reply": "text"}`, by the
    /// id of the sample that is judged
    #[arg(long, value_name = "FILE", conflicts_with = "judge_url")]
    canned_judge: Option<PathBuf>,
    /// Answer the plugin's judge from this OpenAI-compatible server, as in http://localhost:8000/v1
    #[arg(long, value_name = "URL", requires = "judge_model")]
    judge_url: Option<String>,
    /// The model to ask for there
    #[arg(long, value_name = "NAME", requires = "judge_url")]
    judge_model: Option<String>,
    /// The environment variable that holds the server's key
    #[arg(long, value_name = "VARIABLE", requires = "judge_url")]
    judge_key_env: Option<String>,
}

impl JudgeArgs {
    /// The judge, if one is named.
    pub fn judge(&self) -> Result<Option<Arc<dyn Judge>>> {
        if let Some(path) = &self.canned_judge {
            return Ok(Some(Arc::new(Canned::read(path)?)));
        }
        let (Some(url), Some(model)) = (&self.judge_url, &self.judge_model) else { return Ok(None) };
        let url = address(url).map_err(|e| {
            plain(e.to_string(), "write what comes before /chat/completions, as in http://localhost:8000/v1")
        })?;
        let key = self.judge_key_env.as_deref().map(Key::from_env).transpose();
        let key = key
            .map_err(|e| plain(e.to_string(), "set it, or leave --judge-key-env out if no key is needed"))?;
        let judges = Judges::new(vec![Endpoint::new(url, model, key)], Memory::Fresh);
        Ok(Some(Arc::new(judges.context("no judge can be asked")?)))
    }

    /// Refuses a judge that the plugin would never ask.
    pub fn check(&self, file: &PluginFile) -> Result<()> {
        let flag = match (&self.canned_judge, &self.judge_url) {
            (Some(_), _) => "--canned-judge",
            (None, Some(_)) => "--judge-url",
            (None, None) => return Ok(()),
        };
        let inspection = plugin_host().inspect(&file.bytes).map_err(|e| file.refused(e))?;
        if inspection.needs_grants.iter().any(|need| need == "judge") {
            return Ok(());
        }
        Err(plain(
            format!("`{}` asks no judge, so {flag} would not be read", inspection.descriptor.name),
            format!("leave {flag} out, or run a plugin that asks one, as in `whet plugin run judge`"),
        ))
    }

    /// Adds the grant that a named judge is meant for.
    pub fn grant(&self, grants: Grants) -> Grants {
        match self.canned_judge.is_some() || self.judge_url.is_some() {
            true => grants.iter().cloned().chain([Grant::Judge { route: None }]).collect(),
            false => grants,
        }
    }
}
