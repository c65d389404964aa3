//! The run directory: who owns it, what it records about its origin, and whether a recipe may go on in it.
//!
//! ```text
//! recipe.resolved.toml   every key with its value
//! manifest.json          model, precision, seed, versions, plugins with digests and grants
//! metrics.jsonl          numbers of every step
//! tensorboard/           the same, as events
//! trajectories/          every sample of every step
//! plugins.jsonl          what plugins logged
//! judge-cache.jsonl      what judges answered
//! evals/                 every answer of every evaluation
//! checkpoints/           what a run resumes from
//! ```

use crate::RunError;
use crate::judges::JudgeRecord;
use crate::plugins::PluginRecord;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use whet_recipe::{Recipe, RecipeErrors, Schedule};

const RECIPE: &str = "recipe.resolved.toml";
const MANIFEST: &str = "manifest.json";

/// A run directory that this process owns. The lock falls when it is dropped, or the process dies.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    _lock: File,
}

/// What a run records about its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of Whet.
    pub whet: String,
    /// The model's source.
    pub model: String,
    /// Precision of computation.
    pub dtype: String,
    /// Where it ran.
    pub device: String,
    /// The run's seed.
    pub seed: u64,
    /// Rows trained on, of those in the files.
    pub rows: [usize; 2],
    /// Checksum of the prompts trained on, with their labels and metadata.
    pub prompts: String,
    /// Every plugin.
    pub plugins: Vec<PluginRecord>,
    /// Every judge that plugins may ask.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<JudgeRecord>,
}

impl Directory {
    /// Takes the recipe's run directory: a new one, or with `resume` the one of a run that began with the
    /// same recipe.
    pub fn open(recipe: &Recipe, resume: bool) -> Result<Self, RunError> {
        let path = recipe.run.dir.clone();
        let recorded = path.join(RECIPE);
        match (recorded.exists(), resume) {
            // One that ended before it measured or learnt anything is in nobody's way.
            (true, false) if !has_begun(&path) => {}
            (true, false) => return Err(RunError::RunExists { dir: path }),
            (false, true) => return Err(RunError::NoRun { dir: path }),
            _ => {}
        }
        fs::create_dir_all(&path).map_err(RunError::write(&path))?;
        let lock = lock(&path)?;
        let directory = Directory { path, _lock: lock };
        if resume {
            directory.check_recipe(recipe, &recorded)?;
        }
        Ok(directory)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes recipe and manifest down. Of a resumed run plugins and data must be those it began with: with
    /// other bytes the same samples might get other scores, and other rows are taken in another order.
    pub fn record(&self, recipe: &Recipe, manifest: &Manifest, resume: bool) -> Result<(), RunError> {
        let path = self.path.join(MANIFEST);
        if resume && path.exists() {
            let before = recorded_manifest(&self.path)?;
            let mut keys = changed_plugins(&before.plugins, &manifest.plugins);
            if before.prompts != manifest.prompts {
                keys.push("the rows of data.train".to_owned());
            }
            if !keys.is_empty() {
                return Err(RunError::RecipeChanged { dir: self.path.clone(), keys });
            }
        }
        let text = serde_json::to_string_pretty(manifest).unwrap_or_default();
        write_whole(&path, &(text + "\n"))?;
        // Last: its presence says that there is a run.
        write_whole(&self.path.join(RECIPE), &recipe.resolved_toml())
    }

    fn check_recipe(&self, recipe: &Recipe, recorded: &Path) -> Result<(), RunError> {
        let before = Recipe::load(recorded).map_err(|e| malformed(recorded.to_owned(), &e))?;
        let keys = changed_keys(&before, recipe);
        if keys.is_empty() { Ok(()) } else { Err(RunError::RecipeChanged { dir: self.path.clone(), keys }) }
    }
}

/// Whether the run in `dir` has left anything that a new one would write over.
fn has_begun(dir: &Path) -> bool {
    let filled = |file: &str| fs::metadata(dir.join(file)).is_ok_and(|f| f.len() > 0);
    let holds = |folder: &str| fs::read_dir(dir.join(folder)).is_ok_and(|mut files| files.next().is_some());
    filled("metrics.jsonl") || ["checkpoints", "trajectories", "evals"].into_iter().any(holds)
}

/// Whether `dir` is a run directory.
pub fn is_run(dir: &Path) -> bool {
    dir.join(RECIPE).exists()
}

/// What the run in `dir` recorded about its origin.
pub fn recorded_manifest(dir: &Path) -> Result<Manifest, RunError> {
    let path = dir.join(MANIFEST);
    let text = fs::read(&path).map_err(RunError::read(&path))?;
    serde_json::from_slice(&text).map_err(|e| RunError::Malformed { path, reason: e.to_string() })
}

/// The recipe of the run in `dir`.
pub fn recorded_recipe(dir: &Path) -> Result<Recipe, RunError> {
    let path = dir.join(RECIPE);
    if !path.exists() {
        return Err(RunError::NoRun { dir: dir.to_owned() });
    }
    Recipe::load(&path).map_err(|e| malformed(path, &e))
}

/// A recorded recipe that no longer loads.
fn malformed(path: PathBuf, errors: &RecipeErrors) -> RunError {
    let reason = errors.to_string();
    RunError::Malformed { path, reason: reason.strip_prefix("error: ").unwrap_or(&reason).to_owned() }
}

fn lock(dir: &Path) -> Result<File, RunError> {
    let path = dir.join(".lock");
    let file = File::create(&path).map_err(RunError::write(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(RunError::RunLocked { dir: dir.to_owned() }),
        Err(TryLockError::Error(e)) => Err(RunError::write(&path)(e)),
    }
}

/// Writes aside and renames, so that a reader never sees half a file.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), RunError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let aside = path.with_file_name(name);
    fs::write(&aside, text).map_err(RunError::write(&aside))?;
    fs::rename(&aside, path).map_err(RunError::write(path))
}

/// What decides a judge's answers; the rest is how and where it is asked.
const JUDGED_BY: [&str; 3] = ["route", "model", "extra"];

/// Keys in which two recipes differ so that one cannot go on where the other stopped. What is logged,
/// measured and kept may change; so may the number of steps, unless the learning rate depends on it, and
/// where a judge is and how fast it may be asked.
fn changed_keys(before: &Recipe, now: &Recipe) -> Vec<String> {
    let value = |recipe: &Recipe| {
        let mut value = serde_json::to_value(recipe).unwrap_or_default();
        let judges = value.get_mut("judge").and_then(Value::as_array_mut);
        for judge in judges.into_iter().flatten().filter_map(Value::as_object_mut) {
            judge.retain(|key, _| JUDGED_BY.contains(&key.as_str()));
        }
        value
    };
    let mut keys = Vec::new();
    differences("", &value(before), &value(now), &mut keys);
    let constant = now.train.schedule == Schedule::Constant;
    let free = |key: &str| {
        ["run.", "log.", "eval.", "train.micro-batch-tokens", "rollout.max-running"]
            .iter()
            .any(|f| key.starts_with(f))
            || (constant && key == "train.steps")
    };
    keys.retain(|key| !free(key));
    keys
}

fn differences(at: &str, before: &Value, now: &Value, keys: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<&String> = a.keys().chain(b.keys().filter(|k| !a.contains_key(*k))).collect();
            names.sort();
            for name in names {
                let inner = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                let get = |o: &serde_json::Map<String, Value>| o.get(name).cloned().unwrap_or_default();
                differences(&inner, &get(a), &get(b), keys);
            }
        }
        (a, b) if a == b => {}
        _ => keys.push(at.to_owned()),
    }
}

fn changed_plugins(before: &[PluginRecord], now: &[PluginRecord]) -> Vec<String> {
    let digest = |record: &PluginRecord, list: &[PluginRecord]| {
        list.iter().find(|r| r.role == record.role && r.name == record.name).map(|r| r.digest.clone())
    };
    let changed = now.iter().filter(|r| digest(r, before).is_some_and(|d| d != r.digest));
    changed.map(|r| format!("the bytes of {} plugin `{}`", r.role, r.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_are_named_by_their_full_key() {
        let before = json!({"train": {"steps": 3, "warmup": 0}, "seed": 1});
        let now = json!({"train": {"steps": 4, "warmup": 0}, "seed": 1, "filter": [1]});
        let mut keys = Vec::new();
        differences("", &before, &now, &mut keys);
        assert_eq!(keys, ["filter", "train.steps"]);
    }

    #[test]
    fn a_directory_has_one_owner_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let owner = lock(dir.path()).unwrap();
        assert!(matches!(lock(dir.path()), Err(RunError::RunLocked { .. })));
        drop(owner);
        lock(dir.path()).unwrap();
    }

    #[test]
    fn a_plugin_with_other_bytes_is_another_plugin() {
        let record = |digest: &str| PluginRecord {
            role: "reward".into(),
            name: "math-answer".into(),
            path: "a.wasm".into(),
            digest: digest.into(),
            grants: Vec::new(),
            config: json!({}),
        };
        assert!(changed_plugins(&[record("1")], &[record("1")]).is_empty());
        assert_eq!(
            changed_plugins(&[record("1")], &[record("2")]),
            ["the bytes of reward plugin `math-answer`"]
        );
    }
}
