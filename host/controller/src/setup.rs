//! From a recipe to everything that a run needs in memory: model, plugins, prompts.

use crate::judges::{ANSWERS, services};
use crate::plugin_log::log_into;
use crate::plugins::{Plugins, load_plugins};
use crate::prompt::{Prompt, PromptStyle};
use crate::{RunError, options};
use std::path::Path;
use std::sync::Arc;
use tch::{Device, Kind};
use whet_judge::Memory;
use whet_model::Checkpoint;
use whet_plugin_host::{Host, HostOptions, LogSink, user_cache_dir};
use whet_recipe::data::Row;
use whet_recipe::{Dtype, Recipe};
use whet_rollout::{EmbeddedEngine, EngineOptions};

/// Rows given to a filter in one call.
const FILTER_BATCH: usize = 256;

/// How often each reason was given, in the order of their first.
pub type Tally = Vec<(String, usize)>;

/// Prompts to be asked, and how many rows did not become one.
#[derive(Debug)]
pub struct PromptSet {
    /// In the order of the files.
    pub prompts: Vec<Arc<Prompt>>,
    /// Rows in the files.
    pub rows: usize,
    /// Rows left out because their prompt is too long.
    pub too_long: usize,
    /// Rows that a filter dropped, by its reasons.
    pub filtered: Tally,
}

/// A model in its precision, on its device.
#[derive(Debug)]
pub struct LoadedModel {
    /// Weights, tokenizer, template.
    pub checkpoint: Checkpoint,
    /// Precision of computation.
    pub kind: Kind,
    /// Where.
    pub device: Device,
}

/// Loads the recipe's model.
pub fn load_model(recipe: &Recipe) -> Result<LoadedModel, RunError> {
    let device = whet_model::device(&recipe.model.device.to_string())?;
    load_source(&recipe.model.source, recipe.model.dtype, device)
}

/// Loads a model from a folder, a GGUF file or the hub.
pub fn load_source(source: &str, dtype: Dtype, device: Device) -> Result<LoadedModel, RunError> {
    load_with(whet_model::load, source, dtype, device)
}

/// The same for a scalar head, which a saved reward model brings along.
pub fn load_scored(source: &str, dtype: Dtype, device: Device) -> Result<LoadedModel, RunError> {
    load_with(whet_model::load_scored, source, dtype, device)
}

/// Refuses a model whose token ids mean something else than the trained model's.
pub fn same_tokenizer(
    role: &'static str,
    name: &str,
    ours: &Checkpoint,
    theirs: &Checkpoint,
) -> Result<(), RunError> {
    let (a, b) = (&ours.tokenizer, &theirs.tokenizer);
    let shown = |token: Option<String>| token.map_or("nothing".to_owned(), |t| format!("{t:?}"));
    let other = |id: &u32| a.token(*id) != b.token(*id);
    match (0..a.size().max(b.size()) as u32).find(other) {
        None => Ok(()),
        Some(id) => Err(RunError::OtherTokenizer {
            role,
            name: name.to_owned(),
            difference: format!("token {id} is {} there and {} here", shown(b.token(id)), shown(a.token(id))),
        }),
    }
}

type Load = fn(&str, Kind, Device) -> Result<Checkpoint, whet_model::ModelError>;

fn load_with(load: Load, source: &str, dtype: Dtype, device: Device) -> Result<LoadedModel, RunError> {
    let mut kind = options::kind(dtype, usize::MAX);
    let mut checkpoint = load(source, kind, device)?;
    let weights = checkpoint.weights.values().map(tch::Tensor::numel).sum();
    if options::kind(dtype, weights) != kind {
        // A tiny model, left to us: reading it again in fp32 keeps what bf16 would have rounded.
        kind = options::kind(dtype, weights);
        checkpoint = load(source, kind, device)?;
    }
    Ok(LoadedModel { checkpoint, kind, device })
}

/// Starts the plugin host and loads every plugin of the recipe; what they log goes to `log`. Judges have
/// answered nothing before.
pub fn start_plugins(recipe: &Recipe, log: Option<LogSink>) -> Result<(Host, Plugins), RunError> {
    start(recipe, log, Memory::Fresh)
}

/// [`start_plugins`] for the run in `dir`, by the process that owns it: logs and judges' answers are kept there.
pub fn start_plugins_of_run(recipe: &Recipe, dir: &Path) -> Result<(Host, Plugins), RunError> {
    start(recipe, Some(log_into(dir)), Memory::Kept(&dir.join(ANSWERS)))
}

/// [`start_plugins`] with the answers that judges gave in the run in `dir`, which stays as it is: what was
/// asked then has the same answer now, at no cost.
pub fn start_plugins_again(recipe: &Recipe, dir: &Path) -> Result<(Host, Plugins), RunError> {
    start(recipe, None, Memory::Recalled(&dir.join(ANSWERS)))
}

fn start(recipe: &Recipe, log: Option<LogSink>, memory: Memory<'_>) -> Result<(Host, Plugins), RunError> {
    let services = services(recipe, memory)?;
    let host =
        Host::new(HostOptions { cache_dir: user_cache_dir(), log, services, ..HostOptions::default() });
    let plugins = load_plugins(&host, recipe)?;
    Ok((host, plugins))
}

/// The rows of the recipe's files.
#[derive(Debug)]
pub struct DataRows {
    /// `[data] train`.
    pub train: Vec<Row>,
    /// `[data] test`, as many as `[eval]` uses.
    pub test: Vec<Row>,
}

/// Reads the data files.
pub fn read_rows(recipe: &Recipe) -> Result<DataRows, RunError> {
    let train = whet_recipe::data::train(&recipe.data)?.rows;
    let mut test = Vec::new();
    if let Some(eval) = &recipe.eval {
        test = whet_recipe::data::test(&recipe.data)?.rows;
        test.truncate(eval.prompts.unwrap_or(usize::MAX));
    }
    Ok(DataRows { train, test })
}

/// The prompts to train on.
pub fn training_prompts(
    recipe: &Recipe,
    rows: Vec<Row>,
    model: &Checkpoint,
    plugins: &Plugins,
) -> Result<PromptSet, RunError> {
    prompt_set("data.train", recipe, rows, model, Some(plugins))
}

/// The prompts to measure on; none without rows. Filters choose what is trained on, so they do not touch
/// these.
pub fn test_prompts(
    recipe: &Recipe,
    rows: Vec<Row>,
    model: &Checkpoint,
) -> Result<Vec<Arc<Prompt>>, RunError> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    Ok(prompt_set("data.test", recipe, rows, model, None)?.prompts)
}

/// The prompts of rows, unfiltered; `what` names them in errors.
pub fn prompts_of(
    what: &'static str,
    recipe: &Recipe,
    rows: Vec<Row>,
    model: &Checkpoint,
) -> Result<PromptSet, RunError> {
    prompt_set(what, recipe, rows, model, None)
}

/// The embedded engine with a copy of the model's weights.
pub fn start_engine(recipe: &Recipe, model: &LoadedModel) -> Result<EmbeddedEngine, RunError> {
    let engine = EngineOptions {
        kind: model.kind,
        kv_budget_bytes: usize::try_from(recipe.rollout.kv_budget.0).unwrap_or(usize::MAX),
        max_running: recipe.rollout.max_running,
        ..options::engine()
    };
    let checkpoint = &model.checkpoint;
    Ok(EmbeddedEngine::start(&checkpoint.config, &checkpoint.weights, &checkpoint.tokenizer, engine)?)
}

/// The prompt style of a recipe with its model.
pub fn prompt_style<'a>(recipe: &'a Recipe, model: &'a Checkpoint) -> PromptStyle<'a> {
    PromptStyle {
        format: recipe.data.prompt_format,
        kwargs: &recipe.data.template_kwargs,
        tokenizer: &model.tokenizer,
        template: model.template.as_ref(),
        model: &recipe.model.source,
    }
}

fn prompt_set(
    what: &'static str,
    recipe: &Recipe,
    rows: Vec<Row>,
    model: &Checkpoint,
    plugins: Option<&Plugins>,
) -> Result<PromptSet, RunError> {
    let style = prompt_style(recipe, model);
    let all = rows.len();
    let made = style.prompts(&rows, recipe.data.max_prompt_tokens)?;
    let mut set =
        PromptSet { prompts: made.prompts, rows: all, too_long: made.too_long, filtered: Vec::new() };
    if let Some(plugins) = plugins {
        filter_rows(&mut set, plugins)?;
    }
    if set.prompts.is_empty() {
        let filtered = set.filtered.iter().map(|(_, n)| n).sum();
        return Err(RunError::NoRows { what, all, too_long: set.too_long, filtered });
    }
    let prompt = set.prompts.iter().map(|p| p.ids.len()).max().unwrap_or(0);
    let (response, limit) = (recipe.rollout.max_tokens, model.config.max_positions);
    if prompt + response > limit {
        return Err(RunError::TooLong { prompt, response, limit });
    }
    Ok(set)
}

/// Drops the rows that a filter does not keep.
fn filter_rows(set: &mut PromptSet, plugins: &Plugins) -> Result<(), RunError> {
    for filter in &plugins.filters {
        let mut kept = Vec::with_capacity(set.prompts.len());
        for part in set.prompts.chunks(FILTER_BATCH) {
            let rows: Vec<_> = part.iter().map(|prompt| filter_row(prompt)).collect();
            let verdicts = filter.plugin.keep_rows(&rows).map_err(|error| RunError::PluginCall {
                role: "filter",
                name: filter.name.clone(),
                failure: error.into(),
            })?;
            for (prompt, verdict) in part.iter().zip(verdicts) {
                if verdict.keep {
                    kept.push(prompt.clone());
                } else {
                    count(&mut set.filtered, &verdict.reason);
                }
            }
        }
        set.prompts = kept;
    }
    Ok(())
}

/// Counts one more of a reason.
pub(crate) fn count(reasons: &mut Tally, reason: &str) {
    match reasons.iter_mut().find(|(name, _)| name == reason) {
        Some((_, n)) => *n += 1,
        None => reasons.push((reason.to_owned(), 1)),
    }
}

fn filter_row(prompt: &Prompt) -> whet_plugin_host::Row<'_> {
    whet_plugin_host::Row {
        id: &prompt.row_id,
        prompt: &prompt.messages,
        label: prompt.label.as_deref(),
        metadata: &prompt.metadata,
        prompt_tokens: prompt.ids.len() as u32,
    }
}
